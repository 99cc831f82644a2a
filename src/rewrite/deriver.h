// Searches for a derivation: a sequence of rewrites from one graph to another. The search starts
// from both graphs, because a proved rule is an equality. At each end it is best-first by the
// number of nodes that differ from the other end. It therefore follows direct paths first, and then
// detours in order of length. A derivation is a proof of equality; finding none proves nothing.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "rewrite/derivation.h"
#include "rewrite/dictionary.h"

namespace tandem::rewrite {

struct DeriveLimits {
  std::size_t graphs = 20'000;  // largest number of graphs visited
  std::size_t steps = 40;       // largest number of steps of a derivation
};

struct DerivationOutcome {
  bool is_found = false;
  // Steps from the first graph on. They reach the second graph if each step has a rule in this
  // direction.
  Derivation steps;
  // Otherwise the steps from the second graph to the graph where `steps` ends. Example: no rule
  // merges two relus into one relu of a concatenation. Only the reverse is a rule, which ends at a
  // slice of a concatenation.
  Derivation back;
  std::size_t graphs = 0;    // number of graphs visited
  bool is_complete = false;  // nothing else can be reached: there is no derivation

  [[nodiscard]] std::size_t length() const { return steps.size() + back.size(); }
};

// Searches for derivations by one set of rules. For use by one thread.
class Deriver {
 public:
  explicit Deriver(std::vector<Rule> rules) : rules_(std::move(rules)) {}
  Deriver(const Deriver&) = delete;  // the prepared rule sets refer to the dictionary
  Deriver& operator=(const Deriver&) = delete;

  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  // Returns a derivation of `to` from `from`, if it finds one. Rules may choose the degrees that
  // the parallelization operators of either graph have.
  DerivationOutcome derive(const graph::Graph& from, const graph::Graph& to,
                           const DeriveLimits& limits = {});

 private:
  const RuleSet& get_rule_set(const std::vector<std::int64_t>& degrees);

  std::vector<Rule> rules_;
  Dictionary dictionary_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<const RuleSet>> sets_;
};

// Returns `rules` and those of their reversals that are valid rules, named with "-reversed". A
// proved rule is an equality, so its reversal is equally true.
std::vector<Rule> add_reversals(const std::vector<Rule>& rules);

}  // namespace tandem::rewrite
