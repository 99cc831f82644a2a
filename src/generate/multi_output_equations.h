// Rules of several outputs: tensors that are computed separately are parts of one that is computed
// together. Example: (relu x), (relu y) are the halves of the relu of the concatenation of x and y.
//
// All such rules follow from `?x, ?y => halves of (concat ?x ?y)` and rules of one output. That
// equality is no rule, since its outputs are variables. Therefore each operator has its own rule,
// and these rules prune each other.
#pragma once

#include <vector>

#include "generate/equations.h"

namespace tandem::generate {

// Returns equations combined from those of one output: separate tensors on the left, one
// computation on the right. Parts that both sides share become variables. No two equations differ
// only in names.
std::vector<Equation> find_multi_output_equations(Formulas& formulas,
                                                  const std::vector<Equation>& equations);

// Returns those of `several` that do not follow from smaller ones, more general ones and equations
// of one output.
std::vector<Equation> select_independent_multi_output(const TensorTable& table, Formulas& formulas,
                                                      const std::vector<Equation>& of_one_output,
                                                      std::vector<Equation> several);

}  // namespace tandem::generate
