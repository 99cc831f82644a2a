// Element types of the tensors that mixed-precision training stores in addition to bf16 and fp16
// weights. Weights of other types need nothing: their gradients and optimizer state have their own
// type.
#pragma once

#include "tensor/dtype.h"

namespace tandem::plan {

// The mixed-precision settings of a plan.
struct Precision {
  // Whether there are fp32 master weights, sharded like the bf16 or fp16 weights. The optimizer
  // state is then in fp32 too.
  bool master = false;
  // Whether gradients of bf16 and fp16 weights are accumulated and reduced over devices in fp32.
  bool wide_gradients = false;

  bool operator==(const Precision&) const = default;

  // Returns whether a weight of type `weight` has a master copy.
  [[nodiscard]] bool has_master(DType weight) const { return master && is_half(weight); }
  // Returns the type of the optimizer state.
  [[nodiscard]] DType state(DType weight) const {
    return has_master(weight) ? DType::kFp32 : weight;
  }
  // Returns the type of the gradient, summed over micro-batches and devices.
  [[nodiscard]] DType gradient(DType weight) const {
    return wide_gradients && is_half(weight) ? DType::kFp32 : weight;
  }
};

}  // namespace tandem::plan
