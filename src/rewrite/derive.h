// Looks for a derivation: how rules turn one graph into another. From both ends, because a proved
// rule is an equality; each best first, by how many nodes are not as at the other end, so it goes
// straight where rules lead straight and tries detours in the order of their length. What it finds
// is a proof; that it finds nothing is none.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "rewrite/derivation.h"
#include "rewrite/dictionary.h"

namespace tandem::rewrite {

struct DeriveLimits {
  std::size_t graphs = 20'000;  // looked at
  std::size_t steps = 40;       // of a derivation
};

struct Derived {
  bool is_found = false;
  // From the first graph on, all the way where each step can be taken in this direction.
  Derivation steps;
  // Otherwise from the other graph to where the steps end: of merging two relus into one of a
  // concatenation only the way back is a rule, that is how a slice of a concatenation ends.
  Derivation back;
  std::size_t graphs = 0;    // looked at
  bool is_complete = false;  // nothing else can be reached: there is no derivation

  [[nodiscard]] std::size_t length() const { return steps.size() + back.size(); }
};

// Looks for derivations by one set of rules. Used by one thread.
class Deriver {
 public:
  explicit Deriver(std::vector<Rule> rules) : rules_(std::move(rules)) {}
  Deriver(const Deriver&) = delete;  // what is prepared refers to the dictionary
  Deriver& operator=(const Deriver&) = delete;

  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  // Degrees to choose are those that parallelization operators of either graph have.
  Derived derive(const graph::Graph& from, const graph::Graph& to, const DeriveLimits& limits = {});

 private:
  const RuleSet& for_degrees(const std::vector<std::int64_t>& degrees);

  std::vector<Rule> rules_;
  Dictionary dictionary_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<const RuleSet>> sets_;
};

// The rules, and those of their reversals that are rules, named with "-reversed". A proved rule is
// an equality, so its reversal is as true.
std::vector<Rule> with_reversals(const std::vector<Rule>& rules);

}  // namespace tandem::rewrite
