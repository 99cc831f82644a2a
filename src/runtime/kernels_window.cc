// Convolution and pooling of images, whole or in windows. Images are channels last in memory,
// because convolutions are fastest that way. Code that reads them elsewhere uses their strides.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "ops/attributes.h"
#include "ops/registry.h"
#include "ops/windows.h"
#include "runtime/activations.h"
#include "runtime/aten.h"
#include "runtime/factor_ranges.h"
#include "runtime/kernels.h"
#include "runtime/pointwise_conv.h"
#include "runtime/unfolded_conv.h"

namespace tandem::runtime {

namespace {

constexpr auto kImageFormat = at::MemoryFormat::ChannelsLast;

// Returns `t` channels last. ATen recognizes formats by their strides, but a dimension of size 1
// may have any stride. Such strides are set as in a fresh image, because ATen's kernels otherwise
// disagree with each other.
at::Tensor as_image(const at::Tensor& t) {
  const auto out = t.contiguous(kImageFormat);
  const auto strides = c10::get_channels_last_strides_2d(out.sizes());
  return out.strides() == at::IntArrayRef(strides) ? out
                                                   : at::as_strided(out, out.sizes(), strides);
}

bool is_whole(const Shard& shard, std::size_t first_dim) {
  for (std::size_t d = first_dim; d < shard.sizes.rank(); ++d) {
    if (shard.local[d] != shard.sizes[d]) return false;
  }
  return true;
}

bool is_symmetric(const ops::Sizes& padding) {
  return padding.size() == 2 || (padding[0] == padding[2] && padding[1] == padding[3]);
}

// --- Frames -------------------------------------------------------------------------------------

// The part of the image that the device's part of the result reads. If image and result are whole,
// ATen's padding describes it. Otherwise elements are added around the local image, or removed, and
// ATen pads nothing. (A part of the result may need the whole image.)
struct Frame {
  std::array<std::int64_t, 2> padding = {0, 0};
  std::array<std::int64_t, 4> added = {0, 0, 0, 0};  // Left, right, top, bottom
  bool is_atens = false;

  [[nodiscard]] bool changes_nothing() const {
    return is_atens || std::ranges::all_of(added, [](auto n) { return n == 0; });
  }
  [[nodiscard]] at::Tensor pad(const at::Tensor& image, double value) const {
    if (changes_nothing()) return as_image(image);
    return as_image(at::constant_pad_nd(as_image(image), added, value));
  }
  // Returns the gradient of the image, given that of the frame. Removed elements get zeros.
  [[nodiscard]] at::Tensor unpad(const at::Tensor& framed) const {
    if (changes_nothing()) return framed;
    auto removed = added;
    for (auto& n : removed) n = -n;
    return at::constant_pad_nd(framed, removed);
  }
  // Returns the frame's rows and columns if ATen pads nothing.
  [[nodiscard]] std::array<std::int64_t, 2> rows_and_columns(const Call& call) const {
    const auto& image = call.operands[0].local;
    return {image[2] + added[2] + added[3], image[3] + added[0] + added[1]};
  }
  // Returns an uninitialized image with the frame's sizes, for kernels that do not read its values.
  [[nodiscard]] at::Tensor make_empty(const Call& call, const at::TensorOptions& options) const {
    auto sizes = to_aten(call.operands[0].local).vec();
    std::ranges::copy(rows_and_columns(call), sizes.begin() + 2);
    return at::empty(sizes, options, kImageFormat);
  }
};

using Windows = std::array<ops::Windows, 2>;  // Rows, columns

Frame compute_frame(const Call& call, const Windows& windows, bool has_atens_padding) {
  const auto& image = call.operands[0];
  if (has_atens_padding && is_whole(image, 2) && is_whole(call.result, 2)) {
    return {.padding = {windows[0].before, windows[1].before}, .is_atens = true};
  }
  Frame out;
  const auto result = compute_result_box(call);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& w = windows[i];
    const auto d = i + 2;
    const auto first = result.offset[d] * w.stride - w.before;
    const auto end = first + (result.size[d] - 1) * w.stride + w.dilation * (w.kernel - 1) + 1;
    const auto at = i == 0 ? 2U : 0U;
    out.added[at] = image.offset[d] - first;
    out.added[at + 1] = end - image.offset[d] - image.local[d];
  }
  return out;
}

// --- Convolution --------------------------------------------------------------------------------

// Returns the number of groups on this device, which may have only some of them.
std::int64_t count_local_groups(const Call& call) {
  return call.operands[0].local[1] / call.operands[1].local[1];
}

Frame compute_conv_frame(const Call& call, bool has_atens_padding = true) {
  const auto& a = call.op.get<ops::Conv2d>();
  const auto& kernel = call.operands[1].sizes;
  return compute_frame(call,
                       ops::make_windows({.image = call.operands[0].sizes,
                                          .kernel = {kernel[2], kernel[3]},
                                          .stride = a.stride,
                                          .padding = a.padding,
                                          .dilation = a.dilation}),
                       has_atens_padding && is_symmetric(a.padding));
}

at::Tensor compute_conv_preactivation(const Call& call, std::span<const at::Tensor> in) {
  const auto& a = call.op.get<ops::Conv2d>();
  if (in[0].is_cpu() && is_pointwise(call)) return compute_pointwise_preactivation(call, in);
  const auto bias = in.size() == 3 ? in[2] : at::Tensor();
  if (in[0].is_cpu() && is_unfolded(call)) {
    return compute_unfolded_preactivation(call, compute_conv_frame(call, false).pad(in[0], 0),
                                          in[1], bias);
  }
  const auto frame = compute_conv_frame(call);
  return at::conv2d(frame.pad(in[0], 0), as_image(in[1]), bias, a.stride, frame.padding, a.dilation,
                    count_local_groups(call));
}

at::Tensor conv_forward(const Call& call, std::span<const at::Tensor> in) {
  const auto act = call.op.get<ops::Conv2d>().act;
  auto out = compute_conv_preactivation(call, in);
  if (act != ops::Activation::kNone && !has_gradient_from_result(act)) call.save({out});
  return act == ops::Activation::kRelu ? at::relu_(out) : activate(act, out);
}

bool conv_saves_result(const ops::Op& op) {
  const auto act = op.get<ops::Conv2d>().act;
  return act != ops::Activation::kNone && has_gradient_from_result(act);
}

// Computes the gradients of the image and of the weight.
void compute_unfolded_gradients(const Call& call, const BackwardInput& b, const at::Tensor& g,
                                Gradients& out) {
  const auto frame = compute_conv_frame(call, false);
  if (b.wants(1)) {
    out[1] = compute_unfolded_weight_gradient(call, frame.pad(b.operands[0], 0), g);
  }
  if (b.wants(0)) {
    out[0] = frame.unpad(
        compute_unfolded_image_gradient(call, frame.rows_and_columns(call), b.operands[1], g));
  }
}

Gradients conv_backward(const Call& call, const BackwardInput& b) {
  const auto& a = call.op.get<ops::Conv2d>();
  auto g = b.gradient;
  if (conv_saves_result(call.op)) {
    g = compute_activation_gradient(a.act, g,
                                    b.result.defined() ? b.result : conv_forward(call, b.operands));
  } else if (a.act != ops::Activation::kNone) {
    g = compute_activation_gradient(
        a.act, g,
        call.has_saved() ? call.saved->at(0) : compute_conv_preactivation(call, b.operands));
  }
  Gradients out(b.operands.size());
  if (b.operands.size() == 3 && b.wants(2)) out[2] = at::sum(g, {0, 2, 3});
  if (!b.wants(0) && !b.wants(1)) return out;
  if (g.is_cpu() && is_pointwise(call)) {
    const auto [image, weight] = compute_pointwise_gradients(call, b, g);
    out[0] = image;
    out[1] = weight;
    return out;
  }
  if (g.is_cpu() && is_unfolded(call)) {
    compute_unfolded_gradients(call, b, g, out);
    return out;
  }
  const auto frame = compute_conv_frame(call);
  const auto image =
      b.operands[0].defined() ? frame.pad(b.operands[0], 0) : frame.make_empty(call, g.options());
  const auto weight = b.operands[1].defined()
                          ? as_image(b.operands[1])
                          : at::empty(to_aten(call.operands[1].local), g.options(), kImageFormat);
  std::tie(out[0], out[1], std::ignore) = at::convolution_backward(
      as_image(g), image, weight, {}, a.stride, frame.padding, a.dilation, false, {0, 0},
      count_local_groups(call), {b.wants(0), b.wants(1), false});
  if (b.wants(0)) out[0] = frame.unpad(out[0]);
  return out;
}

bool conv_covers(const Call& call) { return is_whole(call.operands[1], 2); }

// --- Pooling ------------------------------------------------------------------------------------

Windows compute_pool_windows(const Call& call) {
  const auto& a = call.op.get<ops::Pool2d>();
  return ops::make_windows({.image = call.operands[0].sizes,
                            .kernel = a.kernel,
                            .stride = a.stride,
                            .padding = a.padding,
                            .ceil = a.ceil});
}

Frame compute_pool_frame(const Call& call, bool has_atens_padding = true) {
  const auto& a = call.op.get<ops::Pool2d>();
  const bool atens = has_atens_padding && is_symmetric(a.padding) &&
                     2 * a.padding[0] <= a.kernel[0] && 2 * a.padding[1] <= a.kernel[1];
  return compute_frame(call, compute_pool_windows(call), atens);
}

// Returns whether ATen, with its own padding, rounds the result's size up.
bool rounds_up(const Call& call, const Frame& frame) {
  return frame.is_atens && call.op.get<ops::Pool2d>().ceil;
}

auto run_max_pool(const Call& call, const Frame& frame, const at::Tensor& image) {
  const auto& a = call.op.get<ops::Pool2d>();
  const auto framed = frame.pad(image, -std::numeric_limits<double>::infinity());
  return at::max_pool2d_with_indices(framed, a.kernel, a.stride, frame.padding, {1, 1},
                                     rounds_up(call, frame));
}

at::Tensor max_forward(const Call& call, std::span<const at::Tensor> in) {
  auto [out, places] = run_max_pool(call, compute_pool_frame(call), in[0]);
  call.save({places});
  return out;
}

Gradients max_backward(const Call& call, const BackwardInput& b) {
  const auto& a = call.op.get<ops::Pool2d>();
  const auto frame = compute_pool_frame(call);
  const auto places =
      call.has_saved() ? call.saved->at(0) : std::get<1>(run_max_pool(call, frame, b.operands[0]));
  const auto image =
      frame.is_atens ? as_image(b.operands[0]) : frame.make_empty(call, b.gradient.options());
  return {frame.unpad(at::max_pool2d_with_indices_backward(as_image(b.gradient), image, a.kernel,
                                                           a.stride, frame.padding, {1, 1},
                                                           rounds_up(call, frame), places))};
}

// Returns over how many elements each window averages along one dimension.
at::Tensor count_window_elements(const ops::Windows& w, std::int64_t first, std::int64_t count,
                                 bool with_padding, const at::TensorOptions& options) {
  const auto padding = with_padding ? std::pair(w.before, w.after) : std::pair(0L, 0L);
  std::vector<double> out;
  for (auto y = first; y < first + count; ++y) {
    const auto begin = y * w.stride - w.before;
    const auto end = std::min(begin + w.kernel, w.image + padding.second);
    out.push_back(static_cast<double>(end - std::max(begin, -padding.first)));
  }
  return at::tensor(out, options);
}

at::Tensor count_averaged_elements(const Call& call, const at::TensorOptions& options) {
  const auto windows = compute_pool_windows(call);
  const auto box = compute_result_box(call);
  const auto along = [&](std::size_t i) {
    return count_window_elements(windows[i], box.offset[i + 2], box.size[i + 2],
                                 call.op.get<ops::Pool2d>().count_padding, options);
  };
  return at::mul(along(0).unsqueeze(1), along(1));
}

at::Tensor average_forward(const Call& call, std::span<const at::Tensor> in) {
  const auto& a = call.op.get<ops::Pool2d>();
  const auto frame = compute_pool_frame(call);
  if (frame.is_atens) {
    return at::avg_pool2d(as_image(in[0]), a.kernel, a.stride, frame.padding, a.ceil,
                          a.count_padding);
  }
  const auto sums = at::avg_pool2d(frame.pad(in[0], 0), a.kernel, a.stride, {0, 0}, false, true, 1);
  return at::div(sums, count_averaged_elements(call, sums.options()));
}

Gradients average_backward(const Call& call, const BackwardInput& b) {
  const auto& a = call.op.get<ops::Pool2d>();
  // ATen's GPU kernel ignores the padding of channels-last images (pytorch issue 188344).
  const auto frame = compute_pool_frame(call, !b.gradient.is_cuda());
  const auto like = frame.make_empty(call, b.gradient.options());
  if (frame.is_atens) {
    return {at::avg_pool2d_backward(as_image(b.gradient), like, a.kernel, a.stride, frame.padding,
                                    a.ceil, a.count_padding, c10::nullopt)};
  }
  const auto each = at::div(b.gradient, count_averaged_elements(call, b.gradient.options()));
  return {frame.unpad(
      at::avg_pool2d_backward(as_image(each), like, a.kernel, a.stride, {0, 0}, false, true, 1))};
}

// Returns the number of elements of the whole image; a device may have only some of them.
double count_image_elements(const Call& call) {
  const auto& sizes = call.operands[0].sizes;
  return static_cast<double>(sizes[2] * sizes[3]);
}

at::Tensor global_forward(const Call& call, std::span<const at::Tensor> in) {
  return at::sum(in[0], {2, 3}).div_(count_image_elements(call));
}

Gradients global_backward(const Call& call, const BackwardInput& b) {
  const auto each = at::div(b.gradient, count_image_elements(call));
  return {each.unsqueeze(-1).unsqueeze(-1).expand(to_aten(call.operands[0].local))};
}

}  // namespace

const Kernel kAvgPool2dKernel = {"avg_pool2d", average_forward, average_backward};
const Kernel kConv2dKernel = {"conv2d", conv_forward, conv_backward, conv_saves_result,
                              conv_covers};
const Kernel kGlobalAvgPoolKernel = {"global_avg_pool", global_forward, global_backward};
const Kernel kMaxPool2dKernel = {"max_pool2d", max_forward, max_backward};

}  // namespace tandem::runtime
