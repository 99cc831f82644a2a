// Functions on source operators (input, weight, constant) that other directories need.
#pragma once

#include <cstdint>

#include "ops/attributes.h"
#include "ops/op.h"

namespace tandem::ops {

// Returns the same source with the shape and layout `shape`.
Op with_shape(const Op& source, const ParallelShape& shape);

// Returns the element of the constant `a` at the global row-major index `index`.
double compute_constant_element(const Constant& a, std::int64_t index);

}  // namespace tandem::ops
