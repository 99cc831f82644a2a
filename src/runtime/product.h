// Products of matrices in fp32, by the library that is fastest on this processor: oneDNN on those
// with AVX-512, where it takes weights as they lie and was measured at up to 1.4 times OpenBLAS;
// elsewhere, and for other types, ATen's choice. It follows from the processor and the shapes
// alone, so that devices that compute the same get the same.
#pragma once

#include "runtime/tensor.h"

namespace tandem::runtime {

// [rows, depth] times [depth, columns], and a bias of [columns] where there is one.
at::Tensor product_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// In fp32, of matrices in 16 bits.
at::Tensor wide_product_of(const at::Tensor& a, const at::Tensor& b);

// sum += factor * a * b.
void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double factor);

// The library gets its code and the memory in which it packs operands with its first products.
// After these, what a process has is what it had before its network came.
void warm_products();

}  // namespace tandem::runtime
