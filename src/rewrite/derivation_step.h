// Derivations as data and as text. A derivation rewrites one graph to another, step by step. A step
// names the rule, the nodes where it applies, and the graph's hash before and after. It identifies
// these nodes, the outputs of the rule's source, by the hashes of what they compute.
// rewrite/derivation.h makes and replays derivations.
//
//   split-relu at 8c1d... choose 0,2 : 33a0... -> 44f1...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace tandem::rewrite {

struct DerivationStep {
  std::string rule;
  std::vector<Hash> place;            // hashes of the source's outputs
  std::vector<std::int64_t> choices;  // values of the rule's choices
  Hash before = 0;
  Hash after = 0;

  bool operator==(const DerivationStep&) const = default;
};

using Derivation = std::vector<DerivationStep>;

std::string to_text(const DerivationStep& step);
// Returns the step that `text` describes. Throws UserError("derivation").
DerivationStep parse_step(std::string_view text);

// Returns the derivation as text, one step on each line.
std::string to_text(const Derivation& derivation);
Derivation parse_derivation(std::string_view text);

}  // namespace tandem::rewrite
