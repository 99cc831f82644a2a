// Derivations: how rules turn one graph into another, step by step. A step names the rule, where
// its source's outputs were, by the hashes of what those nodes compute, and the graph's hash before
// and after. rewrite/derivation.h makes and replays them.
//
//   split-relu at 8c1d... choose 0,2 : 33a0... -> 44f1...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace tandem::rewrite {

struct Step {
  std::string rule;
  std::vector<Hash> place;            // of the source's outputs
  std::vector<std::int64_t> choices;  // of the rule's
  Hash before = 0;
  Hash after = 0;

  bool operator==(const Step&) const = default;
};

using Derivation = std::vector<Step>;

std::string to_text(const Step& step);
// Throws UserError("derivation").
Step parse_step(std::string_view text);

// A step a line.
std::string to_text(const Derivation& derivation);
Derivation parse_derivation(std::string_view text);

}  // namespace tandem::rewrite
