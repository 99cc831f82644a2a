// attention, a head of keys and values at a time: the scores of one such head are all that is ever
// in memory, and the backward pass makes them again.
#include <limits>

#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

// Some heads of queries, and the head of keys and values that they share, number `i` of all.
class SharedHead {
 public:
  SharedHead(const Call& call, std::span<const at::Tensor> in)
      : scale_(call.op.get<ops::Attention>().scale),
        heads_(in[1].size(0) * in[1].size(1)),
        seen_(in[1].size(2)),
        q_(rows_of(in[0])),
        k_(matrices_of(in[1])) {
    if (!call.op.get<ops::Attention>().causal) return;
    // A row sees what is up to its own number; a device may have some of the rows.
    const auto first = call.operands[0].offset[2];
    const auto rows = in[0].size(2);
    hidden_ = at::ones({rows, seen_}, q_.options().dtype(at::kBool)).triu(first + 1);
  }

  [[nodiscard]] std::int64_t heads() const { return heads_; }

  // [b, heads of queries, s, d] as [heads, rows of all queries of one, d], and [b, heads, t, d] as
  // [heads, t, d].
  [[nodiscard]] at::Tensor rows_of(const at::Tensor& t) const {
    return t.contiguous().view({heads_, -1, t.size(3)});
  }
  static at::Tensor matrices_of(const at::Tensor& t) {
    return t.contiguous().view({-1, t.size(2), t.size(3)});
  }

  [[nodiscard]] at::Tensor q(std::int64_t i) const { return q_.select(0, i); }
  [[nodiscard]] at::Tensor k(std::int64_t i) const { return k_.select(0, i); }
  [[nodiscard]] double scale() const { return scale_; }

  [[nodiscard]] at::Tensor probabilities(std::int64_t i) const {
    auto scores = at::mm(q(i), k(i).t()).mul_(scale_);
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
  const SharedHead head(call, in);
  const auto v = SharedHead::matrices_of(in[2]);
  auto sizes = in[0].sizes().vec();
  sizes.back() = in[2].size(3);
  auto out = at::empty(sizes, in[0].options());
  const auto rows = head.rows_of(out);
  for (std::int64_t i = 0; i < head.heads(); ++i) {
    auto result = rows.select(0, i);
    at::mm_out(result, head.probabilities(i), v.select(0, i));
  }
  return out;
}

Gradients attention_backward(const Call& call, const BackwardInput& b) {
  const SharedHead head(call, b.operands);
  const auto g = head.rows_of(b.gradient);
  const bool scores_too = b.wants(0) || b.wants(1);
  Gradients out(3);
  std::vector<at::Tensor> parts(3);
  for (std::size_t i = 0; i < 3; ++i) {
    if (!b.wants(i)) continue;
    out[i] = at::empty(to_aten(call.operands[i].local), b.gradient.options());
    parts[i] = i == 0 ? head.rows_of(out[i]) : SharedHead::matrices_of(out[i]);
  }
  const auto v = scores_too ? SharedHead::matrices_of(b.operands[2]) : at::Tensor();
  const auto store = [&](std::size_t operand, std::int64_t i, const at::Tensor& lhs,
                         const at::Tensor& rhs) {
    auto part = parts[operand].select(0, i);
    at::mm_out(part, lhs, rhs);
  };
  for (std::int64_t i = 0; i < head.heads(); ++i) {
    const auto p = head.probabilities(i);
    const auto gradient = g.select(0, i);
    if (b.wants(2)) store(2, i, p.t(), gradient);
    if (!scores_too) continue;
    const auto of_p = at::mm(gradient, v.select(0, i).t());
    const auto of_scores =
        at::_softmax_backward_data(of_p, p, -1, p.scalar_type()).mul_(head.scale());
    if (b.wants(0)) store(0, i, of_scores, head.k(i));
    if (b.wants(1)) store(1, i, of_scores.t(), head.q(i));
  }
  return out;
}

}  // namespace

const Kernel kAttentionKernel = {"attention", attention_forward, attention_backward};

}  // namespace tandem::runtime
