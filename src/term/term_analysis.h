// Derives facts about parallelism and cost from a term's form, so that no operator declares them.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"
#include "term/bound_term.h"

namespace tandem::term {

// Returns whether the term is jointly linear in `inputs`, with all other inputs held fixed. If so,
// a partial sum over these inputs passes through. add: {0,1}; matmul: {0} or {1}; relu: none.
bool is_linear(const BoundTerm& term, InputMask inputs);

// Returns whether each device may sum its own share of contracted factor `f`, so that the results
// add up to the whole. True for k of linear; false if something nonlinear follows the sum.
bool can_shard_sum(const BoundTerm& term, FactorId f);

// Returns whether each device may take the maximum over its own share of `f`. Holds only for a
// maximum that is a constant in the backward pass.
bool can_shard_maximum(const BoundTerm& term, FactorId f);

// Returns the inputs whose values the gradients of `wanted` inputs use, so they are saved for
// backward. matmul: both; relu: its input; add: none; embedding_bag: the indices, not the table. If
// only the gradient of matmul's first input is wanted: the second input.
InputMask find_saved_inputs(const BoundTerm& term, InputMask wanted = ~InputMask{0});

// Returns the inputs that the term only adds: the gradient of each of their elements is the
// result's gradient, or a sum of such. add: both; cast, reshape: the input; scale: none.
InputMask find_added_inputs(const BoundTerm& term);

// Returns the fraction of the result that is not zero by construction, given that of every input. A
// product is zero if either side is, and a sum if both are.
double compute_density(const BoundTerm& term, std::span<const double> inputs);

// Counts the scalar operations of one evaluation with the sizes in `map`. A multiply-add counts as
// 2.
Flops count_operations(const BoundTerm& term, const IndexMap& map);

}  // namespace tandem::term
