// What a term's form says about parallelism and cost; nothing here is declared by hand.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"
#include "term/bound_term.h"

namespace tandem::term {

// Is the term linear, jointly, in the inputs of `inputs` with the others held fixed?
// Then a partial sum over those passes through. add: {0,1}; matmul: {0} or {1}; relu: none.
bool is_linear(const BoundTerm& term, InputMask inputs);

// May each device sum its own part of contracted factor `f`, the results being summands of the
// whole? True for linear's k; false where something not linear follows the sum.
bool sums_in_parts(const BoundTerm& term, FactorId f);

// The same for a maximum that is a constant in the backward pass.
bool maximum_in_parts(const BoundTerm& term, FactorId f);

// The inputs whose values the gradients mention, so that they must be kept for the backward pass.
// matmul: both; relu: its input; add: none; embedding_bag: the indices, not the table.
// Where only the gradients of some inputs are wanted, those that these mention: of matmul's first
// input, the second alone.
InputMask backward_reads(const BoundTerm& term, InputMask wanted = ~InputMask{0});

// The inputs that the term only adds: the gradient of an element of theirs is the result's, or a
// sum of such. add: both; cast, reshape: the input; scale: none.
InputMask added_inputs(const BoundTerm& term);

// The part of the result that is not zero by construction, given that of every input: a product is
// zero where either side is, a sum where both are.
double density(const BoundTerm& term, std::span<const double> inputs);

// Scalar operations of one evaluation with the sizes in `map`; a multiply-add counts 2.
Flops count_operations(const BoundTerm& term, const IndexMap& map);

}  // namespace tandem::term
