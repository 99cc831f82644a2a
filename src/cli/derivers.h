// Searches for derivations by the shipped rules or by the rules of files. A rule is redundant if
// such a derivation leads from its source to its target. Both sides are built as graphs for one
// pattern of sizes.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "rewrite/deriver.h"

namespace tandem::cli {

// Searches with several sets of rules, one after another. Not thread-safe.
class Derivers {
 public:
  // Takes the rules of the files and their reversals. Without files there are two sets: the proved
  // handwritten rules, then these and the generated ones, among which a search takes longer.
  explicit Derivers(const std::vector<std::string>& files);

  struct DerivationResult {
    rewrite::DerivationOutcome derived;
    const std::vector<rewrite::Rule>* rules = nullptr;  // set of the derivation, or the last set
  };
  // Searches for a derivation from `from` to `to`. `limits` hold for each set.
  DerivationResult derive(const graph::Graph& from, const graph::Graph& to,
                          const rewrite::DeriveLimits& limits);

 private:
  std::deque<rewrite::Deriver> sets_;  // a deque, so that their addresses stay valid
};

// Returns the number of steps in which the rules turn the source of `rule` into its target; nullopt
// if no derivation is found.
std::optional<std::size_t> count_steps_to_derive(const rewrite::Rule& rule, Derivers& derivers,
                                                 const rewrite::DeriveLimits& limits);

}  // namespace tandem::cli
