// Finds the operators that a kind of recomputation recomputes for the backward pass.
//
// Example: a layer is norm, linear 1, relu, linear 2, add. The next layer reads the sum.
//   full           norm, linear 1, relu, linear 2
//   save_matmuls   norm, relu, linear 2
#pragma once

#include <vector>

#include "strategies/problem.h"
#include "strategies/recompute.h"

namespace tandem::strategies {

// Returns, by node, whether it is recomputed.
std::vector<bool> find_recomputed(Recompute recompute, const Problem& problem);

}  // namespace tandem::strategies
