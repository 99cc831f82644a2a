// A part of a tensor along a dimension that the device has whole.
#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

at::Tensor slice_part(const Call& call, const at::Tensor& t) {
  const auto& a = call.op.get<ops::Slice>();
  return t.narrow(a.axis, a.begin, a.size);
}

at::Tensor slice_forward(const Call& call, std::span<const at::Tensor> in) {
  return slice_part(call, in[0]).contiguous(in[0].suggest_memory_format());
}

Gradients slice_backward(const Call& call, const BackwardInput& b) {
  auto out = at::empty(to_aten(call.operands[0].local), b.gradient.options(),
                       b.gradient.suggest_memory_format())
                 .zero_();
  slice_part(call, out).copy_(b.gradient);
  return {out};
}

bool slice_covers(const Call& call) {
  const auto& shard = call.operands[0];
  const auto axis = call.op.get<ops::Slice>().axis;
  const auto d = static_cast<std::size_t>(
      axis < 0 ? axis + static_cast<std::int64_t>(shard.sizes.rank()) : axis);
  return shard.local[d] == shard.sizes[d];
}

}  // namespace

const Kernel kSliceKernel = {"slice", slice_forward, slice_backward,
                             [](const ops::Op&) { return false; }, slice_covers};

}  // namespace tandem::runtime
