// Element types of what training keeps beside 16-bit weights. Weights of other types need nothing:
// their gradients and their optimizer state are of their own type.
#pragma once

#include "tensor/dtype.h"

namespace tandem::plan {

struct Precision {
  // What is updated is a copy of a 16-bit weight in fp32, stored as the weight is. The optimizer's
  // state is then in fp32, too.
  bool master = false;
  // Gradients of 16-bit weights are added up, and summed over devices, in fp32.
  bool wide_gradients = false;

  bool operator==(const Precision&) const = default;

  [[nodiscard]] bool has_master(DType weight) const { return master && is_half(weight); }
  [[nodiscard]] DType state(DType weight) const {
    return has_master(weight) ? DType::kFp32 : weight;
  }
  // Of the sum over micro-batches and devices.
  [[nodiscard]] DType gradient(DType weight) const {
    return wide_gradients && is_half(weight) ? DType::kFp32 : weight;
  }
};

}  // namespace tandem::plan
