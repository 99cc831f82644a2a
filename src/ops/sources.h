// What other folders ask about sources beside their attributes.
#pragma once

#include <cstdint>

#include "ops/attributes.h"
#include "ops/op.h"

namespace tandem::ops {

// The same source, laid out as `shape` says.
Op with_shape(const Op& source, const ParallelShape& shape);

// The element of a constant at a global row-major index.
double constant_element(const Constant& a, std::int64_t index);

}  // namespace tandem::ops
