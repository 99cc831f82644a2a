// Does an operator's result have the (global) shape of its operands? Found out from its meaning.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/op.h"

namespace tandem::verify {

enum class ShapeKeeping : std::uint8_t {
  kUnknown,
  kOfEqual,  // where all operands have one shape, that is the result's
  kAlways,   // that of the first operand
};

ShapeKeeping keeping_of(const ops::OpSpec& spec, std::size_t operands);

}  // namespace tandem::verify
