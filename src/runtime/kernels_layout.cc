// Operators that move or reshape elements and compute nothing.
#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/factor_ranges.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

at::Tensor reshape_forward(const Call& call, std::span<const at::Tensor> in) {
  return in[0].contiguous().view(to_aten(compute_result_box(call).size));
}

Gradients reshape_backward(const Call& call, const BackwardInput& b) {
  return {b.gradient.contiguous().view(to_aten(call.operands[0].local))};
}

at::Tensor transpose_forward(const Call& call, std::span<const at::Tensor> in) {
  return in[0].permute(call.op.get<ops::Transpose>().perm).contiguous();
}

Gradients transpose_backward(const Call& call, const BackwardInput& b) {
  const auto& perm = call.op.get<ops::Transpose>().perm;
  std::vector<std::int64_t> back(perm.size());
  for (std::size_t d = 0; d < perm.size(); ++d) {
    back[static_cast<std::size_t>(perm[d])] = static_cast<std::int64_t>(d);
  }
  return {b.gradient.permute(back).contiguous()};
}

std::size_t get_split_axis(const Call& call) {
  const auto axis = call.op.get<ops::SplitAttributes>().axis;
  const auto rank = static_cast<std::int64_t>(call.operands[0].sizes.rank());
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

at::Tensor narrow_to_split_part(const Call& call, const at::Tensor& t) {
  const auto& a = call.op.get<ops::SplitAttributes>();
  const auto d = static_cast<std::int64_t>(get_split_axis(call));
  const auto size = t.size(d) / a.parts;
  return t.narrow(d, a.part * size, size);
}

at::Tensor split_forward(const Call& call, std::span<const at::Tensor> in) {
  return narrow_to_split_part(call, in[0]).contiguous(in[0].suggest_memory_format());
}

Gradients split_backward(const Call& call, const BackwardInput& b) {
  auto out = at::empty(to_aten(call.operands[0].local), b.gradient.options(),
                       b.gradient.suggest_memory_format())
                 .zero_();
  narrow_to_split_part(call, out).copy_(b.gradient);
  return {out};
}

bool split_covers(const Call& call) {
  const auto& shard = call.operands[0];
  const auto d = get_split_axis(call);
  return shard.local[d] == shard.sizes[d];
}

}  // namespace

const Kernel kReshapeKernel = {"reshape", reshape_forward, reshape_backward};
const Kernel kSplitKernel = {"split", split_forward, split_backward,
                             [](const ops::Op&) { return false; }, split_covers};
const Kernel kTransposeKernel = {"transpose", transpose_forward, transpose_backward};

}  // namespace tandem::runtime
