// Finds the operators that a kind of recomputation recomputes for the backward pass.
#pragma once

#include <vector>

#include "strategies/problem.h"
#include "strategies/recompute.h"

namespace tandem::strategies {

// Returns, by node, whether it is recomputed.
std::vector<bool> find_recomputed(Recompute recompute, const Problem& problem);

}  // namespace tandem::strategies
