// Matmuls of matrices with many zero rows, such as the input of an expert, which has a row for
// every token. They find the zero rows by reading the matrix, and skip them.
#pragma once

#include "runtime/tensor.h"

namespace tandem::runtime {

// Returns, for each element of the batch, `rows` [rows, k] times the transpose of `other` [n, k]:
// [batch, rows, n].
at::Tensor multiply_nonzero_rows(const at::Tensor& rows, const at::Tensor& other);

// Returns, for each element of the batch, the transpose of `lhs` [rows, n] times `rhs` [rows, k]:
// [batch, n, k].
at::Tensor multiply_over_nonzero_rows(const at::Tensor& lhs, const at::Tensor& rhs);

}  // namespace tandem::runtime
