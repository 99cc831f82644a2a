// The generator: makes rules from an operator set, in these steps:
//
//   tensor_table.h            all distinct tensors of small graphs
//   equations.h               equalities between graphs, generalised and without renamings
//   pruning.h, formula_rewriter.h    equations that do not follow from smaller ones
//   multi_output_equations.h         rules that compute two separate tensors together
//   widen.h                   conditions and free attributes
//   parallel_rules.h          the parallel rules
//
// No rule is dropped for its cost: a rule that makes a graph slower may be a step to a faster
// graph.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generate/generated_rule.h"
#include "generate/operator_set.h"
#include "generate/tensor_table.h"
#include "rewrite/rule.h"

namespace tandem::generate {

struct GeneratorOptions {
  std::size_t max_ops = 3;
  unsigned threads = 2;
  std::function<void(const std::string&)> progress = {};  // receives a line now and then
};

struct Generated {
  std::vector<rewrite::Rule> rules;
  // Types and values for which each rule was found. Parallel rules, which come last, have none.
  std::vector<Assignment> found;
  // Rules with the attributes for which they were found, and without conditions. A rule with a free
  // attribute may have an exception among the values that were not tried.
  std::vector<GeneratedRule> literal;
  std::vector<std::vector<rewrite::Rule>> parallel_literal;  // for the parallel rules
  std::size_t graphs = 0;                                    // number of evaluated graphs
  std::size_t candidates = 0;  // number of equalities between two graphs
  // Number of equations or rules that each step left, in order.
  std::vector<std::pair<std::string, std::size_t>> left;
};

inline bool is_parallel_rule(const Generated& generated, std::size_t rule) {
  return rule >= generated.literal.size();
}

// Returns the rule with the attributes for which it was found, and the conditions that it then
// needs. Returns an empty list if no conditions suffice or the rule stays the same. A parallel rule
// may have several such rules.
std::vector<rewrite::Rule> make_literal_rules(const Generated& generated, std::size_t rule);

// Generates the rules of `set`. The result is deterministic. Throws UserError if `set` is wrong.
Generated generate(const OperatorSet& set, const GeneratorOptions& options);

}  // namespace tandem::generate
