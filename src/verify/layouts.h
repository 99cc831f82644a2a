// Finds rules that apply nowhere, because their source is legal in no layout of its tensors:
//
//   (relu (join ?x ?y))                relu takes no partial sums
//   (concat ?x (combine ?x dim=0 degree=2) axis=0)      dimension 0 must be whole, and has degree 2
//
// Operators multiply, divide and compare degrees, replicas and partial sums, or require them to be
// 1. Their logarithms are nonnegative, and linear equations between the logarithms decide what is
// legal. The operators' signatures give the equations, at sizes at which the source without its
// parallelization fits. If the equations have no solution, no layout is legal, whatever the
// degrees. The method ignores that shards must be equal, which only makes more layouts legal.
#pragma once

#include <optional>

#include "verify/instances.h"

namespace tandem::verify {

// Returns the first node at which the source is illegal in all layouts. Returns nullopt if a legal
// layout may exist, if the source does not even fit unsharded, or if equations cannot decide.
std::optional<rewrite::PatternId> find_illegal_node(const Rule& rule,
                                                    const PatternLimits& limits = {});

}  // namespace tandem::verify
