// Convolution and pooling of images whose rows and columns are whole. Images are channels last in
// memory, as convolutions are fastest; whatever reads them elsewhere goes by their strides.
#include "ops/attributes.h"
#include "ops/registry.h"
#include "runtime/activations.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

constexpr auto kImageFormat = at::MemoryFormat::ChannelsLast;

at::Tensor as_image(const at::Tensor& t) { return t.contiguous(kImageFormat); }

// Of an operand whose value is not read, and whose shape is all that is looked at.
at::Tensor or_empty(const Call& call, std::size_t i, const at::Tensor& t, const at::Tensor& like) {
  if (t.defined()) return as_image(t);
  return at::empty(to_aten(call.operands[i].local), like.options(), kImageFormat);
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

at::IntArrayRef before(const ops::Sizes& padding) { return {padding.data(), 2}; }

// --- Convolution --------------------------------------------------------------------------------

// A device may have some of the groups.
std::int64_t groups_here(const Call& call) {
  return call.operands[0].local[1] / call.operands[1].local[1];
}

at::Tensor conv_sums(const Call& call, std::span<const at::Tensor> in) {
  const auto& a = call.op.get<ops::Conv2d>();
  const auto bias = in.size() == 3 ? in[2] : at::Tensor();
  return at::conv2d(as_image(in[0]), as_image(in[1]), bias, a.stride, before(a.padding), a.dilation,
                    groups_here(call));
}

at::Tensor conv_forward(const Call& call, std::span<const at::Tensor> in) {
  const auto act = call.op.get<ops::Conv2d>().act;
  auto out = conv_sums(call, in);
  if (act != ops::Activation::kNone && !has_gradient_from_result(act)) call.keep({out});
  return act == ops::Activation::kRelu ? at::relu_(out) : activate(act, out);
}

bool conv_keeps(const ops::Op& op) {
  const auto act = op.get<ops::Conv2d>().act;
  return act != ops::Activation::kNone && has_gradient_from_result(act);
}

Gradients conv_backward(const Call& call, const BackwardInput& b) {
  const auto& a = call.op.get<ops::Conv2d>();
  auto g = b.gradient;
  if (conv_keeps(call.op)) {
    g = activation_gradient(a.act, g,
                            b.result.defined() ? b.result : conv_forward(call, b.operands));
  } else if (a.act != ops::Activation::kNone) {
    g = activation_gradient(a.act, g,
                            call.has_kept() ? call.kept->at(0) : conv_sums(call, b.operands));
  }
  Gradients out(b.operands.size());
  if (b.operands.size() == 3 && b.wants(2)) out[2] = at::sum(g, {0, 2, 3});
  if (!b.wants(0) && !b.wants(1)) return out;
  const auto image = or_empty(call, 0, b.operands[0], g);
  const auto weight = or_empty(call, 1, b.operands[1], g);
  std::tie(out[0], out[1], std::ignore) = at::convolution_backward(
      as_image(g), image, weight, {}, a.stride, before(a.padding), a.dilation, false, {0, 0},
      groups_here(call), {b.wants(0), b.wants(1), false});
  return out;
}

bool conv_covers(const Call& call) {
  return is_symmetric(call.op.get<ops::Conv2d>().padding) && is_whole(call.operands[0], 2) &&
         is_whole(call.operands[1], 2);
}

// --- Pooling ------------------------------------------------------------------------------------

bool pool_covers(const Call& call) {
  const auto& a = call.op.get<ops::Pool2d>();
  if (!is_symmetric(a.padding) || !is_whole(call.operands[0], 2)) return false;
  // ATen's limit.
  return 2 * a.padding[0] <= a.kernel[0] && 2 * a.padding[1] <= a.kernel[1];
}

auto max_pool(const Call& call, const at::Tensor& image) {
  const auto& a = call.op.get<ops::Pool2d>();
  return at::max_pool2d_with_indices(as_image(image), a.kernel, a.stride, before(a.padding), {1, 1},
                                     a.ceil);
}

at::Tensor max_forward(const Call& call, std::span<const at::Tensor> in) {
  auto [out, places] = max_pool(call, in[0]);
  call.keep({places});
  return out;
}

Gradients max_backward(const Call& call, const BackwardInput& b) {
  const auto& a = call.op.get<ops::Pool2d>();
  const auto places =
      call.has_kept() ? call.kept->at(0) : std::get<1>(max_pool(call, b.operands[0]));
  return {at::max_pool2d_with_indices_backward(as_image(b.gradient), as_image(b.operands[0]),
                                               a.kernel, a.stride, before(a.padding), {1, 1},
                                               a.ceil, places)};
}

at::Tensor average_forward(const Call& call, std::span<const at::Tensor> in) {
  const auto& a = call.op.get<ops::Pool2d>();
  return at::avg_pool2d(as_image(in[0]), a.kernel, a.stride, before(a.padding), a.ceil,
                        a.count_padding);
}

Gradients average_backward(const Call& call, const BackwardInput& b) {
  const auto& a = call.op.get<ops::Pool2d>();
  return {at::avg_pool2d_backward(as_image(b.gradient),
                                  or_empty(call, 0, b.operands[0], b.gradient), a.kernel, a.stride,
                                  before(a.padding), a.ceil, a.count_padding, c10::nullopt)};
}

// A device may have some of the rows and columns.
double area(const Call& call) {
  const auto& sizes = call.operands[0].sizes;
  return static_cast<double>(sizes[2] * sizes[3]);
}

at::Tensor global_forward(const Call& call, std::span<const at::Tensor> in) {
  return at::sum(in[0], {2, 3}).div_(area(call));
}

Gradients global_backward(const Call& call, const BackwardInput& b) {
  const auto each = at::div(b.gradient, area(call));
  return {each.unsqueeze(-1).unsqueeze(-1).expand(to_aten(call.operands[0].local))};
}

constexpr auto kAlone = [](const ops::Op&) { return false; };

}  // namespace

const Kernel kAvgPool2dKernel = {"avg_pool2d", average_forward, average_backward, kAlone,
                                 pool_covers};
const Kernel kConv2dKernel = {"conv2d", conv_forward, conv_backward, conv_keeps, conv_covers};
const Kernel kGlobalAvgPoolKernel = {"global_avg_pool", global_forward, global_backward};
const Kernel kMaxPool2dKernel = {"max_pool2d", max_forward, max_backward, kAlone, pool_covers};

}  // namespace tandem::runtime
