// The generator: an operator set in, rules out. In order: all distinct tensors of small graphs
// (tensor_table.h); equalities between graphs, generalised and without renamings (equations.h);
// those that do not follow from smaller ones (pruning.h, rewriting.h); rules of several outputs,
// where two tensors that were made apart may be made together; conditions and free attributes
// (widen.h); and the parallel rules (parallel_rules.h).
//
// Nothing is dropped for what it costs: a rule that makes a graph slower may be a step to a faster
// one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generate/made_rule.h"
#include "generate/operators.h"
#include "generate/tensor_table.h"
#include "rewrite/rule.h"

namespace tandem::generate {

struct Options {
  std::size_t max_ops = 3;
  unsigned threads = 2;
  std::function<void(const std::string&)> progress = {};  // a line now and then
};

struct Generated {
  std::vector<rewrite::Rule> rules;
  // By rule, the types and values that it was found for; of parallel rules, which come last, none.
  std::vector<Assignment> found;
  // The same rules with the attributes that they were found for, and without conditions: what is
  // true of those that any value was tried for may have an exception.
  std::vector<MadeRule> literal;
  std::vector<std::vector<rewrite::Rule>> parallel_literal;  // of those that come last
  std::size_t graphs = 0;                                    // that were evaluated
  std::size_t candidates = 0;                                // equalities of two of them
  // How many were left after each pruning, in order.
  std::vector<std::pair<std::string, std::size_t>> left;
};

inline bool is_parallel_rule(const Generated& generated, std::size_t rule) {
  return rule >= generated.literal.size();
}

// The rule with the attributes that it was found for, and the conditions this needs; nothing where
// there are none, or where it is the same rule. Of a parallel rule there may be several.
std::vector<rewrite::Rule> with_literal_attributes(const Generated& generated, std::size_t rule);

// Deterministic. Throws UserError on an operator set that is wrong.
Generated generate(const OperatorSet& set, const Options& options);

}  // namespace tandem::generate
