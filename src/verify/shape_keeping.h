// Finds out from an operator's meaning whether its result has the (global) shape of its operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/op.h"

namespace tandem::verify {

enum class ShapeKeeping : std::uint8_t {
  kUnknown,
  kOfEqual,  // the result has the operands' shape if they all have one
  kAlways,   // the result has the shape of the first operand
};

// Returns how `spec` with that many operands preserves their shape.
ShapeKeeping find_shape_keeping(const ops::OpSpec& spec, std::size_t operands);

}  // namespace tandem::verify
