#include "runtime/zero_row_matmul.h"

#include <algorithm>

#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

// Returns the indices of the rows that are not all zero.
at::Tensor find_nonzero_rows(const at::Tensor& matrix) {
  if (!matrix.is_cpu()) return matrix.ne(0).any(1).nonzero().squeeze(1);
  const auto width = matrix.size(1);
  std::vector<std::int64_t> found;
  AT_DISPATCH_FLOATING_TYPES(matrix.scalar_type(), "rows_in_use", [&] {
    const auto* row = matrix.data_ptr<scalar_t>();
    for (std::int64_t r = 0; r < matrix.size(0); ++r, row += width) {
      const bool zero = std::all_of(row, row + width, [](scalar_t x) { return x == 0; });
      if (!zero) found.push_back(r);
    }
  });
  auto out = at::empty({static_cast<std::int64_t>(found.size())}, at::kLong);
  std::ranges::copy(found, out.data_ptr<std::int64_t>());
  return out;
}

}  // namespace

at::Tensor multiply_nonzero_rows(const at::Tensor& rows, const at::Tensor& other) {
  const auto in = rows.contiguous();
  auto out = at::zeros({in.size(0), in.size(1), other.size(1)}, in.options());
  for (std::int64_t b = 0; b < in.size(0); ++b) {
    const auto used = find_nonzero_rows(in.select(0, b));
    if (used.numel() == 0) continue;
    const auto matmul = at::mm(in.select(0, b).index_select(0, used), other.select(0, b).t());
    out.select(0, b).index_copy_(0, used, matmul);
  }
  return out;
}

at::Tensor multiply_over_nonzero_rows(const at::Tensor& lhs, const at::Tensor& rhs) {
  const auto a = lhs.contiguous();
  auto out = at::zeros({a.size(0), a.size(2), rhs.size(2)}, a.options());
  for (std::int64_t b = 0; b < a.size(0); ++b) {
    const auto used = find_nonzero_rows(a.select(0, b));
    if (used.numel() == 0) continue;
    auto sum = out.select(0, b);
    at::mm_out(sum, a.select(0, b).index_select(0, used).t(),
               rhs.select(0, b).index_select(0, used));
  }
  return out;
}

}  // namespace tandem::runtime
