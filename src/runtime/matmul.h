// fp32 matmuls by the library that is fastest on this CPU. With AVX-512 that is oneDNN: it takes
// weights in their order in memory, and was measured at up to 1.4 times the speed of OpenBLAS. On
// other CPUs, and for other types, ATen chooses. The choice depends on the CPU and the shapes
// alone, so devices that compute the same get the same results.
#pragma once

#include "runtime/tensor.h"

namespace tandem::runtime {

// Returns `a` [rows, depth] times `b` [depth, columns], plus `bias` [columns] if it is defined.
at::Tensor compute_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// Returns the product of bf16 matrices in fp32.
at::Tensor compute_wide_matmul(const at::Tensor& a, const at::Tensor& b);

// Computes sum += factor * a * b.
void add_matmul(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double factor);

// Runs a few matmuls, so that the library loads its code and allocates its packing buffers. The
// memory of the process is then the baseline before the network's tensors.
void warm_up_matmuls();

}  // namespace tandem::runtime
