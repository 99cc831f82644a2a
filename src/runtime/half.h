// bf16 tensors are stored and sent as bf16, and computed with in fp32: the result of an operator is
// rounded once. Matmuls multiply bf16 operands and sum in fp32 if the device has instructions for
// that. On CPUs, ATen has few other bf16 kernels, and they are seldom faster. On GPUs its bf16
// kernels read and write half the bytes, and compute in fp32 internally.
#pragma once

#include <vector>

#include "runtime/kernels.h"

namespace tandem::runtime {

// Returns whether the kernel gives the same result for bf16 operands as for fp32 copies of them.
// Such kernels move elements, apply one operation to each, or widen the rows they read of an
// embedding table.
bool takes_half(const Kernel& kernel);

// Returns whether that holds on `device` if all results are wanted in bf16.
bool takes_half_for_half_results(const Kernel& kernel, at::Device device);

// Returns whether the kernel consists of matmuls and `device` multiplies bf16 faster than wider
// numbers.
bool multiplies_half(const Kernel& kernel, at::Device device);

// Returns `t` in fp32 if it is bf16, and `t` itself otherwise.
at::Tensor widen(const at::Tensor& t);
std::vector<at::Tensor> widen(std::vector<at::Tensor> tensors);

// Returns `t` in `type`, the element type of its buffer. For a sparse tensor it converts the
// elements.
at::Tensor convert_to_type(const at::Tensor& t, at::ScalarType type);

}  // namespace tandem::runtime
