#include "runtime/pointwise_conv.h"

#include <algorithm>
#include <array>

#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/factor_ranges.h"
#include "runtime/matmul.h"

namespace tandem::runtime {

namespace {

// The elements of the image that are read along one dimension.
struct Read {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t stride = 1;
};
// Returns the elements that are read along rows and along columns.

std::array<Read, 2> compute_reads(const Call& call) {
  const auto& stride = call.op.get<ops::Conv2d>().stride;
  const auto result = compute_result_box(call);
  std::array<Read, 2> out;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto d = i + 2;
    out[i] = {.first = result.offset[d] * stride[i] - call.operands[0].offset[d],
              .count = result.size[d],
              .stride = stride[i]};
  }
  return out;
}

// Returns the elements of the image that are read: all of them, or a view.
at::Tensor narrow_to_read(const Call& call, at::Tensor image) {
  const auto reads = compute_reads(call);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto d = static_cast<std::int64_t>(i + 2);
    const auto& [first, count, stride] = reads[i];
    if (stride == 1 && count == image.size(d)) continue;
    image = image.slice(d, first, first + (count - 1) * stride + 1, stride);
  }
  return image;
}

// Reshapes an image to [elements of all images, channels].
at::Tensor as_matrix(const at::Tensor& image) {
  return image.permute({0, 2, 3, 1}).reshape({-1, image.size(1)});
}

at::Tensor as_image(const at::Tensor& matrix, std::int64_t images, const std::array<Read, 2>& of) {
  return matrix.view({images, of[0].count, of[1].count, matrix.size(1)}).permute({0, 3, 1, 2});
}

at::Tensor as_matrix_of_weight(const at::Tensor& weight) {
  return weight.reshape({weight.size(0), weight.size(1)});
}

}  // namespace

bool is_pointwise(const Call& call) {
  const auto& kernel = call.operands[1].sizes;
  const auto& padding = call.op.get<ops::Conv2d>().padding;
  return kernel[2] == 1 && kernel[3] == 1 &&
         std::ranges::all_of(padding, [](auto n) { return n == 0; }) &&
         call.operands[0].local[1] == call.operands[1].local[1];
}

at::Tensor compute_pointwise_preactivation(const Call& call, std::span<const at::Tensor> in) {
  const auto image = as_matrix(narrow_to_read(call, in[0]));
  const auto weight = as_matrix_of_weight(in[1]).t();
  return as_image(compute_matmul(image, weight, in.size() == 3 ? in[2] : at::Tensor()),
                  in[0].size(0), compute_reads(call));
}

PointwiseGradients compute_pointwise_gradients(const Call& call, const BackwardInput& b,
                                               const at::Tensor& gradient) {
  PointwiseGradients out;
  const auto g = as_matrix(gradient);
  if (b.wants(1)) {
    out.weight = compute_matmul(g.t(), as_matrix(narrow_to_read(call, b.operands[0])))
                     .view(to_aten(call.operands[1].local));
  }
  if (!b.wants(0)) return out;
  const auto of_read = as_image(compute_matmul(g, as_matrix_of_weight(b.operands[1])),
                                gradient.size(0), compute_reads(call));
  const auto sizes = to_aten(call.operands[0].local);
  if (of_read.sizes() == sizes) {
    out.image = of_read;
  } else {
    out.image = at::empty(sizes, gradient.options(), at::MemoryFormat::ChannelsLast).zero_();
    narrow_to_read(call, out.image).copy_(of_read);
  }
  return out;
}

}  // namespace tandem::runtime
