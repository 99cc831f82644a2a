// attention, for some heads of keys and values at a time. Only the scores of these are ever in
// memory, and the backward pass recomputes them. A CPU takes one head at a time, so that the scores
// stay in its caches. A GPU, on which each matmul is a launch, takes many, unless it has a fused
// kernel (cuda_attention.h).
#include <algorithm>
#include <limits>

#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

#ifdef TANDEM_HAS_CUDA
#include "runtime/cuda_attention.h"
#endif

namespace tandem::runtime {

namespace {

constexpr std::int64_t kScoresAtOnce = std::int64_t{1} << 26U;  // On a GPU

// The heads of keys and values of all samples, each with the rows of the queries that share it.
class SharedHeads {
 public:
  // A range of heads.
  struct HeadRange {
    std::int64_t first, count;
    [[nodiscard]] at::Tensor narrow(const at::Tensor& t) const { return t.narrow(0, first, count); }
  };

  SharedHeads(const Call& call, std::span<const at::Tensor> in)
      : scale_(call.op.get<ops::Attention>().scale),
        heads_(in[1].size(0) * in[1].size(1)),
        seen_(in[1].size(2)),
        q_(to_query_rows(in[0])),
        k_(to_matrices(in[1])) {
    if (!call.op.get<ops::Attention>().causal) return;
    // A row sees elements up to its own number. A device may have only some of the rows.
    const auto first = call.operands[0].offset[2];
    const auto rows = in[0].size(2);
    hidden_ = at::ones({rows, seen_}, q_.options().dtype(at::kBool)).triu(first + 1);
  }

  // Calls work(range) for ranges that together are all heads.
  template <class Work>
  void for_each_range(Work&& work) const {
    const auto scores = std::max<std::int64_t>(1, q_.size(1) * seen_);
    const auto most = q_.is_cpu() ? 1 : std::max<std::int64_t>(1, kScoresAtOnce / scores);
    for (std::int64_t i = 0; i < heads_; i += most) work(HeadRange{i, std::min(most, heads_ - i)});
  }

  // to_query_rows reshapes [b, query heads, s, d] to [heads, rows of all queries of a head, d].
  // to_matrices reshapes [b, heads, t, d] to [heads, t, d].
  [[nodiscard]] at::Tensor to_query_rows(const at::Tensor& t) const {
    return t.contiguous().view({heads_, -1, t.size(3)});
  }
  static at::Tensor to_matrices(const at::Tensor& t) {
    return t.contiguous().view({-1, t.size(2), t.size(3)});
  }

  [[nodiscard]] at::Tensor q(HeadRange range) const { return range.narrow(q_); }
  [[nodiscard]] at::Tensor k(HeadRange range) const { return range.narrow(k_); }
  [[nodiscard]] double scale() const { return scale_; }

  [[nodiscard]] at::Tensor compute_probabilities(HeadRange range) const {
    auto scores = at::bmm(q(range), k(range).transpose(1, 2)).mul_(scale_);
    if (hidden_.defined()) {
      scores.view({-1, hidden_.size(0), seen_})
          .masked_fill_(hidden_, -std::numeric_limits<double>::infinity());
    }
    return at::_softmax(scores, -1, false);
  }

 private:
  double scale_;
  std::int64_t heads_;
  std::int64_t seen_;
  at::Tensor q_, k_, hidden_;
};

at::Tensor attention_forward(const Call& call, std::span<const at::Tensor> in) {
#ifdef TANDEM_HAS_CUDA
  if (has_flash_attention(call, in)) return flash_attention(call, in);
#endif
  const SharedHeads heads(call, in);
  const auto v = SharedHeads::to_matrices(in[2]);
  auto sizes = in[0].sizes().vec();
  sizes.back() = in[2].size(3);
  auto out = at::empty(sizes, in[0].options());
  const auto rows = heads.to_query_rows(out);
  heads.for_each_range([&](auto range) {
    auto result = range.narrow(rows);
    at::bmm_out(result, heads.compute_probabilities(range), range.narrow(v));
  });
  return out;
}

Gradients attention_backward(const Call& call, const BackwardInput& b) {
#ifdef TANDEM_HAS_CUDA
  if (has_flash_attention(call, b.operands)) return flash_attention_gradients(call, b);
#endif
  const SharedHeads heads(call, b.operands);
  const auto g = heads.to_query_rows(b.gradient);
  const bool scores_too = b.wants(0) || b.wants(1);
  Gradients out(3);
  std::vector<at::Tensor> parts(3);
  for (std::size_t i = 0; i < 3; ++i) {
    if (!b.wants(i)) continue;
    out[i] = at::empty(to_aten(call.operands[i].local), b.gradient.options());
    parts[i] = i == 0 ? heads.to_query_rows(out[i]) : SharedHeads::to_matrices(out[i]);
  }
  const auto v = scores_too ? SharedHeads::to_matrices(b.operands[2]) : at::Tensor();
  heads.for_each_range([&](auto range) {
    const auto store = [&](std::size_t operand, const at::Tensor& lhs, const at::Tensor& rhs) {
      auto part = range.narrow(parts[operand]);
      at::bmm_out(part, lhs, rhs);
    };
    const auto p = heads.compute_probabilities(range);
    const auto gradient = range.narrow(g);
    if (b.wants(2)) store(2, p.transpose(1, 2), gradient);
    if (!scores_too) return;
    const auto of_p = at::bmm(gradient, range.narrow(v).transpose(1, 2));
    const auto of_scores =
        at::_softmax_backward_data(of_p, p, -1, p.scalar_type()).mul_(heads.scale());
    if (b.wants(0)) store(0, of_scores, heads.k(range));
    if (b.wants(1)) store(1, of_scores.transpose(1, 2), heads.q(range));
  });
  return out;
}

}  // namespace

const Kernel kAttentionKernel = {"attention", attention_forward, attention_backward};

}  // namespace tandem::runtime
