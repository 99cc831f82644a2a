#include "runtime/unfolded_conv.h"

#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/factor_ranges.h"
#include "runtime/matmul.h"

namespace tandem::runtime {

namespace {

// Number of images, rows and columns of the result, rows and columns of a window, channels.
struct Extents {
  std::int64_t images, rows, columns, height, width, channels;

  [[nodiscard]] std::int64_t elements() const { return images * rows * columns; }
  [[nodiscard]] std::int64_t depth() const { return height * width * channels; }
};

Extents compute_extents(const Call& call) {
  const auto& weight = call.operands[1].local;
  const auto result = compute_result_box(call);
  return {
      call.operands[0].local[0], result.size[2], result.size[3], weight[2], weight[3], weight[1]};
}

// Reshapes the weight to [outputs, depth], in its order in memory.
at::Tensor as_matrix_of_weight(const at::Tensor& weight) {
  return weight.permute({0, 2, 3, 1}).reshape({weight.size(0), -1});
}

// Reshapes the result to [elements, outputs].
at::Tensor as_matrix_of_sums(const at::Tensor& sums) {
  return sums.permute({0, 2, 3, 1}).reshape({-1, sums.size(1)});
}

// Returns all windows as [elements, depth].
at::Tensor unfold_windows(const Call& call, const at::Tensor& image) {
  const auto& a = call.op.get<ops::Conv2d>();
  const auto e = compute_extents(call);
  const auto last = image.permute({0, 2, 3, 1}).contiguous();
  const auto by_image = last.size(1) * last.size(2) * e.channels;
  const auto by_row = last.size(2) * e.channels;
  return at::as_strided(last, {e.images, e.rows, e.columns, e.height, e.width, e.channels},
                        {by_image, by_row * a.stride[0], e.channels * a.stride[1],
                         by_row * a.dilation[0], e.channels * a.dilation[1], 1})
      .reshape({e.elements(), e.depth()});
}

}  // namespace

bool is_unfolded(const Call& call) {
  return call.operands[0].local[1] == call.operands[1].local[1] &&
         compute_extents(call).elements() < call.operands[1].local[0];
}

at::Tensor compute_unfolded_preactivation(const Call& call, const at::Tensor& image,
                                          const at::Tensor& weight, const at::Tensor& bias) {
  const auto e = compute_extents(call);
  const auto windows = unfold_windows(call, image);
  const auto matrix = as_matrix_of_weight(weight).t();
  const auto sums = compute_matmul(windows, matrix, bias);
  return sums.view({e.images, e.rows, e.columns, -1}).permute({0, 3, 1, 2});
}

at::Tensor compute_unfolded_weight_gradient(const Call& call, const at::Tensor& image,
                                            const at::Tensor& gradient) {
  const auto e = compute_extents(call);
  return compute_matmul(as_matrix_of_sums(gradient).t(), unfold_windows(call, image))
      .view({-1, e.height, e.width, e.channels})
      .permute({0, 3, 1, 2});
}

at::Tensor compute_unfolded_image_gradient(const Call& call, std::array<std::int64_t, 2> frame,
                                           const at::Tensor& weight, const at::Tensor& gradient) {
  const auto& a = call.op.get<ops::Conv2d>();
  const auto e = compute_extents(call);
  const auto of_windows = compute_matmul(as_matrix_of_sums(gradient), as_matrix_of_weight(weight))
                              .view({e.images, e.rows, e.columns, e.height, e.width, e.channels});
  auto out = at::zeros({e.images, frame[0], frame[1], e.channels}, gradient.options());
  // Returns the elements of `t` along `d` that the windows have read at one position in each.
  const auto read = [](const at::Tensor& t, std::int64_t d, std::int64_t first, std::int64_t count,
                       std::int64_t stride) {
    return t.slice(d, first, first + (count - 1) * stride + 1, stride);
  };
  for (std::int64_t y = 0; y < e.height; ++y) {
    const auto rows = read(out, 1, y * a.dilation[0], e.rows, a.stride[0]);
    for (std::int64_t x = 0; x < e.width; ++x) {
      read(rows, 2, x * a.dilation[1], e.columns, a.stride[1])
          .add_(of_windows.select(3, y).select(3, x));
    }
  }
  return out.permute({0, 3, 1, 2});
}

}  // namespace tandem::runtime
