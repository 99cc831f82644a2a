// slice and pad along a dimension that the device has whole.
#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

bool is_whole(const Shard& shard, std::int64_t axis) {
  const auto d = static_cast<std::size_t>(
      axis < 0 ? axis + static_cast<std::int64_t>(shard.sizes.rank()) : axis);
  return shard.local[d] == shard.sizes[d];
}

// Returns zeros with `part` copied to place_in(zeros), a view of them.
template <class PlaceIn>
at::Tensor embed_in_zeros(at::IntArrayRef sizes, const at::Tensor& part, PlaceIn&& place_in) {
  auto out = at::empty(sizes, part.options(), part.suggest_memory_format()).zero_();
  place_in(out).copy_(part);
  return out;
}

// --- slice --------------------------------------------------------------------------------------

at::Tensor narrow_to_slice(const Call& call, const at::Tensor& t) {
  const auto& a = call.op.get<ops::Slice>();
  return t.narrow(a.axis, a.begin, a.size);
}

at::Tensor slice_forward(const Call& call, std::span<const at::Tensor> in) {
  return narrow_to_slice(call, in[0]).contiguous(in[0].suggest_memory_format());
}

Gradients slice_backward(const Call& call, const BackwardInput& b) {
  return {embed_in_zeros(to_aten(call.operands[0].local), b.gradient,
                         [&](const at::Tensor& all) { return narrow_to_slice(call, all); })};
}

bool slice_covers(const Call& call) {
  return is_whole(call.operands[0], call.op.get<ops::Slice>().axis);
}

// --- pad ----------------------------------------------------------------------------------------

// Returns the part of the padded tensor that is not padding.
at::Tensor narrow_to_unpadded(const Call& call, const at::Tensor& padded) {
  const auto& a = call.op.get<ops::Pad>();
  return padded.narrow(a.axis, a.before, padded.size(a.axis) - a.before - a.after);
}

at::Tensor pad_forward(const Call& call, std::span<const at::Tensor> in) {
  const auto& a = call.op.get<ops::Pad>();
  auto sizes = in[0].sizes().vec();
  const auto last = static_cast<std::int64_t>(sizes.size());
  sizes[static_cast<std::size_t>(a.axis < 0 ? a.axis + last : a.axis)] += a.before + a.after;
  return embed_in_zeros(sizes, in[0],
                        [&](const at::Tensor& all) { return narrow_to_unpadded(call, all); });
}

Gradients pad_backward(const Call& call, const BackwardInput& b) {
  return {narrow_to_unpadded(call, b.gradient).contiguous(b.gradient.suggest_memory_format())};
}

// Returns whether operand and result are whole along the padded dimension. One part of a sharded
// result may read the whole operand.
bool pad_covers(const Call& call) {
  const auto axis = call.op.get<ops::Pad>().axis;
  return is_whole(call.operands[0], axis) &&
         (call.result.sizes.rank() == 0 || is_whole(call.result, axis));
}

constexpr auto kNoResult = [](const ops::Op&) { return false; };

}  // namespace

const Kernel kPadKernel = {"pad", pad_forward, pad_backward, kNoResult, pad_covers};
const Kernel kSliceKernel = {"slice", slice_forward, slice_backward, kNoResult, slice_covers};

}  // namespace tandem::runtime
