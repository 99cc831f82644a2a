// Derivations by the shipped rules, or by those of files; and is a rule something that these do
// anyway? The graphs of both its sides, at one pattern of sizes, and a derivation between them.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "rewrite/derive.h"

namespace tandem::cli {

// Asks several sets of rules, one after another. Used by one thread.
class Derivers {
 public:
  // The rules of the files and their reversals; of none, the shipped ones, with those that were
  // generated only where the others do not suffice: among so many it takes longer to find any.
  explicit Derivers(const std::vector<std::string>& files);

  struct Found {
    rewrite::Derived derived;
    const std::vector<rewrite::Rule>* rules = nullptr;  // it is by these, or they came last
  };
  // The limits are those of each set.
  Found derive(const graph::Graph& from, const graph::Graph& to,
               const rewrite::DeriveLimits& limits);

 private:
  std::deque<rewrite::Deriver> sets_;  // which stay where they are
};

// In how many steps the rules turn its source into its target; nothing where none were found.
std::optional<std::size_t> steps_to_derive(const rewrite::Rule& rule, Derivers& derivers,
                                           const rewrite::DeriveLimits& limits);

}  // namespace tandem::cli
