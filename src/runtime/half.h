// 16-bit tensors are stored and sent in 16 bits and computed with in fp32: what an operator makes
// is rounded once. Products are multiplied in 16 bits, and summed in fp32, where the device has
// instructions for that; ATen's other kernels in 16 bits are few, and seldom faster.
#pragma once

#include <vector>

#include "runtime/kernels.h"

namespace tandem::runtime {

// Is the result the same if the kernel is given 16-bit operands as they are: it moves elements, or
// does one operation with each, or widens what it reads of a table itself?
bool takes_half(const Kernel& kernel);

// Is it made of products, and does the device multiply 16-bit numbers faster than wider ones?
bool multiplies_half(const Kernel& kernel, at::Device device);

// In fp32 if it was in 16 bits.
at::Tensor widened(const at::Tensor& t);
std::vector<at::Tensor> widened(std::vector<at::Tensor> tensors);

// As a buffer of this type has it. Of a sparse tensor the elements.
at::Tensor rounded(const at::Tensor& t, at::ScalarType type);

}  // namespace tandem::runtime
