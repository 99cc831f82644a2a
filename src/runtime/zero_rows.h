// Products with matrices many of whose rows are zero, as what an expert gets of all tokens is: such
// rows are found by looking, and left out.
#pragma once

#include "runtime/tensor.h"

namespace tandem::runtime {

// Of [batch, rows, k] and [batch, n, k], for every element of the batch rows times the other
// transposed: [batch, rows, n].
at::Tensor product_of_rows(const at::Tensor& rows, const at::Tensor& other);

// Of [batch, rows, n] and [batch, rows, k] the sum over the rows: [batch, n, k].
at::Tensor product_over_rows(const at::Tensor& lhs, const at::Tensor& rhs);

}  // namespace tandem::runtime
