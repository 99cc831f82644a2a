// 16-bit tensors are stored and sent in 16 bits and computed with in fp32: what an operator makes
// is rounded once. Products are multiplied in 16 bits, and summed in fp32, where the device has
// instructions for that. ATen's other kernels in 16 bits are few on processors, and seldom faster;
// on GPUs they read and write half the bytes, and compute in fp32 in between.
#pragma once

#include <vector>

#include "runtime/kernels.h"

namespace tandem::runtime {

// Is the result the same if the kernel is given 16-bit operands as they are: it moves elements, or
// does one operation with each, or widens what it reads of a table itself?
bool takes_half(const Kernel& kernel);

// The same on this device, where all that is made is wanted in 16 bits.
bool takes_half_for_half(const Kernel& kernel, at::Device device);

// Is it made of products, and does the device multiply 16-bit numbers faster than wider ones?
bool multiplies_half(const Kernel& kernel, at::Device device);

// In fp32 if it was in 16 bits.
at::Tensor widened(const at::Tensor& t);
std::vector<at::Tensor> widened(std::vector<at::Tensor> tensors);

// As a buffer of this type has it. Of a sparse tensor the elements.
at::Tensor rounded(const at::Tensor& t, at::ScalarType type);

}  // namespace tandem::runtime
