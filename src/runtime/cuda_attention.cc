#include "runtime/cuda_attention.h"

#include "ops/attributes.h"
#include "runtime/aten.h"

namespace tandem::runtime {

namespace {

// Tensors that the backward pass needs.
struct FlashAttentionResult {
  at::Tensor result, log_sums, seed, offset;
};

constexpr double kDropped = 0;

// Returns `t` in the layout that the kernel reads: the elements of a head are adjacent.
at::Tensor readable(const at::Tensor& t) { return t.stride(3) == 1 ? t : t.contiguous(); }

FlashAttentionResult run(const Call& call, std::span<const at::Tensor> in) {
  const auto& a = call.op.get<ops::Attention>();
  const auto out = at::_scaled_dot_product_flash_attention(
      readable(in[0]), readable(in[1]), readable(in[2]), kDropped, a.causal, false, a.scale);
  return {std::get<0>(out), std::get<1>(out), std::get<6>(out), std::get<7>(out)};
}

}  // namespace

// The kernel's causal mask counts rows from the first, so a causal call must have all rows.
bool has_flash_attention(const Call& call, std::span<const at::Tensor> in) {
  const auto& q = in[0];
  // An operand is undefined if no wanted gradient needs it.
  if (!q.defined() || !in[1].defined() || !in[2].defined()) return false;
  if (!q.is_cuda() || q.scalar_type() != at::kBFloat16) return false;
  const auto width = q.size(3);
  constexpr std::int64_t kUnit = 8;
  constexpr std::int64_t kWidest = 256;
  if (width != in[2].size(3) || width % kUnit != 0 || width > kWidest) return false;
  return !call.op.get<ops::Attention>().causal ||
         (call.operands[0].offset[2] == 0 && q.size(2) == in[1].size(2));
}

at::Tensor flash_attention(const Call& call, std::span<const at::Tensor> in) {
  const auto made = run(call, in);
  call.save({made.result, made.log_sums, made.seed, made.offset});
  return made.result;
}

Gradients flash_attention_gradients(const Call& call, const BackwardInput& b) {
  const auto& a = call.op.get<ops::Attention>();
  const auto& in = b.operands;
  const auto made = call.has_saved() ? FlashAttentionResult{call.saved->at(0), call.saved->at(1),
                                                            call.saved->at(2), call.saved->at(3)}
                                     : run(call, in);
  const auto [q, k, v] = at::_scaled_dot_product_flash_attention_backward(
      readable(b.gradient), readable(in[0]), readable(in[1]), readable(in[2]), made.result,
      made.log_sums, {}, {}, in[0].size(2), in[1].size(2), kDropped, a.causal, made.seed,
      made.offset, a.scale);
  return {q, k, v};
}

}  // namespace tandem::runtime
