// Rules of several outputs: tensors that are made apart are the parts of one that is made together.
// (relu x), (relu y) are the halves of relu of the concatenation of x and y. All of them follow
// from
// `?x, ?y => halves of (concat ?x ?y)` and rules of one output, but that is no rule, since its
// outputs are variables: so each operator has its own, and they are pruned by each other.
#pragma once

#include <vector>

#include "generate/equations.h"

namespace tandem::generate {

// From equations of one output: what is apart on the left, what is together on the right. What both
// sides have is a variable; none is another one with other names.
std::vector<Equation> several_outputs(Formulas& formulas, const std::vector<Equation>& equations);

// Those of them that do not follow from smaller ones, more general ones and equations of one
// output.
std::vector<Equation> several_without_derived(const TensorTable& table, Formulas& formulas,
                                              const std::vector<Equation>& of_one_output,
                                              std::vector<Equation> several);

}  // namespace tandem::generate
