// at::Tensor, and the conversion of this program's shapes and element types to ATen's.
#pragma once

#pragma push_macro("CHECK")
#undef CHECK
#include <ATen/core/Tensor.h>
#undef CHECK
#pragma pop_macro("CHECK")

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tandem::runtime {

inline at::IntArrayRef to_aten(const Shape& shape) { return {shape.begin(), shape.rank()}; }

// Indices become int64 whatever the plan says, because ATen requires it.
inline at::ScalarType to_aten(DType type) {
  switch (type) {
    case DType::kFp64:
      return at::kDouble;
    case DType::kFp32:
      return at::kFloat;
    case DType::kInt32:
    case DType::kInt64:
      return at::kLong;
    case DType::kBf16:
      return at::kBFloat16;
    case DType::kFp16:
      break;
  }
  throw UserError("plan", "dtype", fmt::format("the runtime does not support {}", name(type)),
                  "use fp64, fp32 or bf16");
}

}  // namespace tandem::runtime
