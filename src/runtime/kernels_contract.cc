// contract, by einsum. Its gradients are contractions too: of the result's gradient with the other
// operand.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/text.h"
#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/factor_ranges.h"
#include "runtime/kernels.h"
#include "runtime/zero_row_matmul.h"

namespace tandem::runtime {

namespace {

// The factors of each tensor, as one letter each, and their local sizes.
class Factors {
 public:
  explicit Factors(const Call& call) {
    const auto& signature = get_signature(call);
    const auto ranges = compute_factor_ranges(call, signature);
    for (std::size_t f = 0; f < ranges.size(); ++f) {
      size_[signature.map.factors[f].name] = ranges[f].local;
    }
    const std::string_view index = call.op.get<ops::Contract>().index;
    const auto arrow = index.find("->");
    const auto sides = split(index.substr(0, arrow), ',');
    lhs = assign_letters(sides[0]);
    rhs = assign_letters(sides[1]);
    out = assign_letters(index.substr(arrow + 2));
  }

  std::string lhs, rhs, out;

  [[nodiscard]] std::vector<std::int64_t> get_sizes(const std::string& of) const {
    std::vector<std::int64_t> out;
    for (const char letter : of) out.push_back(local_.at(letter));
    return out;
  }
  // Splits dimensions of several factors: (kv g) becomes two dimensions.
  [[nodiscard]] at::Tensor split_dimensions(const at::Tensor& t, const std::string& of) const {
    return t.dim() == static_cast<std::int64_t>(of.size()) ? t : t.reshape(get_sizes(of));
  }

 private:
  std::string assign_letters(std::string_view side) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::string text(side);
    std::ranges::replace_if(
        text, [](char c) { return c == '(' || c == ')'; }, ' ');
    std::string found;
    for (auto factor : split_words(text)) {
      const std::string name(factor.substr(0, factor.find(':')));
      found += letter_.try_emplace(name, kLetters[letter_.size()]).first->second;
      local_[found.back()] = size_.at(name);
    }
    return found;
  }
  std::map<std::string, std::int64_t> size_;
  std::map<std::string, char> letter_;
  std::map<char, std::int64_t> local_;
};

bool has_groups(const Call& call) {
  return call.op.get<ops::Contract>().index.find('(') != std::string::npos;
}

at::Tensor einsum(const std::string& lhs, const std::string& rhs, const std::string& out,
                  const at::Tensor& a, const at::Tensor& b) {
  return at::einsum(lhs + "," + rhs + "->" + out, {a, b});
}

at::Tensor apply_scale(const Call& call, at::Tensor t) {
  const auto scale = call.op.get<ops::Contract>().scale;
  return scale == 1 ? t : t.mul_(scale);
}

// Returns whether the call is like "e b s i, e f i -> e b s f" and the first operand has zero rows.
// These are the matmuls of an expert's weights.
bool skips_zeros(const Call& call, const Factors& f) {
  const auto& [lhs, rhs, out] = std::tie(f.lhs, f.rhs, f.out);
  if (call.operands[0].density >= 1 || has_groups(call)) return false;
  if (lhs.size() < 3 || rhs.size() != 3 || out.size() != lhs.size()) return false;
  const auto tokens = lhs.size() - 1;
  return lhs[0] == rhs[0] && lhs.back() == rhs[2] && out.back() == rhs[1] &&
         lhs.compare(0, tokens, out, 0, tokens) == 0 && rhs[1] != rhs[2];
}

// Reshapes [expert, token..., k] to [expert, tokens, k].
at::Tensor flatten_tokens(const at::Tensor& t) { return t.reshape({t.size(0), -1, t.size(-1)}); }

Gradients expert_backward(const Call& call, const BackwardInput& b) {
  Gradients out(2);
  const auto g = flatten_tokens(b.gradient);
  if (b.wants(0)) {
    const auto matmul = multiply_nonzero_rows(g, b.operands[1].transpose(1, 2));
    out[0] = apply_scale(call, matmul).view(to_aten(call.operands[0].local));
  }
  if (b.wants(1))
    out[1] = apply_scale(call, multiply_over_nonzero_rows(g, flatten_tokens(b.operands[0])));
  return out;
}

at::Tensor contract_forward(const Call& call, std::span<const at::Tensor> in) {
  const Factors f(call);
  if (skips_zeros(call, f)) {
    return apply_scale(call, multiply_nonzero_rows(flatten_tokens(in[0]), in[1]))
        .view(f.get_sizes(f.out));
  }
  // The result of a trivial contraction may be a view of an operand.
  auto out = einsum(f.lhs, f.rhs, f.out, f.split_dimensions(in[0], f.lhs),
                    f.split_dimensions(in[1], f.rhs));
  const bool shares = out.is_alias_of(in[0]) || out.is_alias_of(in[1]);
  out = apply_scale(call, shares ? out.clone() : out);
  return has_groups(call) ? out.reshape(to_aten(compute_result_box(call).size)) : out;
}

// Returns the gradient of the operand with factors `of`; `other` is the other operand. The gradient
// is the same along a factor that only this operand has.
at::Tensor compute_operand_gradient(const Call& call, const Factors& f, const std::string& of,
                                    const Shape& local, const at::Tensor& g,
                                    const std::string& other_factors, const at::Tensor& other) {
  std::string found;
  for (char c : of) {
    if (f.out.find(c) != std::string::npos || other_factors.find(c) != std::string::npos) {
      found += c;
    }
  }
  auto result = einsum(f.out, other_factors, found, g, f.split_dimensions(other, other_factors));
  if (result.is_alias_of(g) || result.is_alias_of(other)) result = result.clone();
  result = apply_scale(call, result);
  for (std::size_t d = 0; d < of.size(); ++d) {
    if (found.find(of[d]) == std::string::npos) {
      result = result.unsqueeze(static_cast<std::int64_t>(d));
    }
  }
  return result.expand(f.get_sizes(of)).reshape(to_aten(local));
}

// Returns `g` with a new order in memory: first the factors of both operands, then those of the
// left one, then those of the right one. Neither matmul then has to reorder it.
at::Tensor arrange_for_matmuls(const Factors& f, const at::Tensor& g) {
  const auto has = [](const std::string& of, char c) { return of.find(c) != std::string::npos; };
  const auto place = [&](std::int64_t d) {
    const char c = f.out[static_cast<std::size_t>(d)];
    const bool left = has(f.lhs, c);
    return left && has(f.rhs, c) ? 0 : left ? 1 : 2;
  };
  std::vector<std::int64_t> order(f.out.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, place);
  std::vector<std::int64_t> back(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) {
    back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
  }
  return g.permute(order).contiguous().permute(back);
}

Gradients contract_backward(const Call& call, const BackwardInput& b) {
  const Factors f(call);
  if (skips_zeros(call, f)) return expert_backward(call, b);
  auto g = f.split_dimensions(b.gradient, f.out);
  if (b.wants(0) && b.wants(1)) g = arrange_for_matmuls(f, g);
  Gradients grads(2);
  for (const std::size_t i : {0, 1}) {
    if (!b.wants(i)) continue;
    grads[i] = compute_operand_gradient(call, f, i == 0 ? f.lhs : f.rhs, call.operands[i].local, g,
                                        i == 0 ? f.rhs : f.lhs, b.operands[1 - i]);
  }
  return grads;
}

bool contract_covers(const Call& call) { return call.operands.size() == 2; }

}  // namespace

const Kernel kContractKernel = {"contract", contract_forward, contract_backward,
                                [](const ops::Op&) { return false; }, contract_covers};

}  // namespace tandem::runtime
