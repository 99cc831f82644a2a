// Which rules apply nowhere, because their source is legal in no layout of its tensors:
//
//   (relu (join ?x ?y))                a relu takes no partial sums
//   (concat ?x (combine ?x dim=0 degree=2) axis=0)      dimension 0 is whole, and has a degree of 2
//
// Degrees, replicas and partial sums are multiplied and divided by operators, compared, and said to
// be 1. So their logarithms are numbers that are not negative, and what is legal are linear
// equations between them, read off the operators' signatures at sizes at which the source without
// its parallelization fits. If these have no solution then no layout is legal, of any degrees. That
// parts must be equal is left out, and only makes more legal.
#pragma once

#include <optional>

#include "verify/instances.h"

namespace tandem::verify {

// The node of the source up to which it is legal in no layout. None where there may be one, where
// the source does not even fit undivided, or where that cannot be said so simply.
std::optional<rewrite::PatternId> illegal_in_all_layouts(const Rule& rule,
                                                         const PatternLimits& limits = {});

}  // namespace tandem::verify
