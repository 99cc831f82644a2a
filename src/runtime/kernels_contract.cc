// contract by einsum. Its gradients are contractions too: of the result's gradient with the other
// operand.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "ops/attributes.h"
#include "runtime/aten.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

namespace {

// The factors of a tensor, a letter each.
struct Contraction {
  std::string lhs, rhs, out;

  explicit Contraction(std::string_view index) {
    const auto arrow = index.find("->");
    const auto sides = split(index.substr(0, arrow), ',');
    lhs = letters(sides[0]);
    rhs = letters(sides[1]);
    out = letters(index.substr(arrow + 2));
  }

 private:
  std::string letters(std::string_view side) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::string text;
    for (auto factor : words(side)) {
      text += letter_.try_emplace(std::string(factor), kLetters[letter_.size()]).first->second;
    }
    return text;
  }
  std::map<std::string, char> letter_;
};

at::Tensor einsum(const std::string& lhs, const std::string& rhs, const std::string& out,
                  const at::Tensor& a, const at::Tensor& b) {
  return at::einsum(lhs + "," + rhs + "->" + out, {a, b});
}

at::Tensor scaled(const Call& call, at::Tensor t) {
  const auto scale = call.op.get<ops::Contract>().scale;
  return scale == 1 ? t : t.mul_(scale);
}

at::Tensor contract_forward(const Call& call, std::span<const at::Tensor> in) {
  const Contraction c(call.op.get<ops::Contract>().index);
  // A product may be a view of an operand where the contraction is trivial.
  const auto out = einsum(c.lhs, c.rhs, c.out, in[0], in[1]);
  const bool shares = out.is_alias_of(in[0]) || out.is_alias_of(in[1]);
  return scaled(call, shares ? out.clone() : out);
}

// The gradient of the operand with factors `of`, the other one being `other`. It is the same along
// a factor that only this operand has.
at::Tensor gradient(const Call& call, const std::string& of, const Shape& local,
                    const std::string& out, const at::Tensor& g, const std::string& other_factors,
                    const at::Tensor& other) {
  std::string found;
  for (char f : of) {
    if (out.find(f) != std::string::npos || other_factors.find(f) != std::string::npos) found += f;
  }
  auto result = einsum(out, other_factors, found, g, other);
  if (result.is_alias_of(g) || result.is_alias_of(other)) result = result.clone();
  result = scaled(call, result);
  for (std::size_t d = 0; d < of.size(); ++d) {
    if (found.find(of[d]) == std::string::npos) {
      result = result.unsqueeze(static_cast<std::int64_t>(d));
    }
  }
  return result.expand(to_aten(local));
}

Gradients contract_backward(const Call& call, const BackwardInput& b) {
  const Contraction c(call.op.get<ops::Contract>().index);
  Gradients grads(2);
  if (b.wants(0)) {
    grads[0] =
        gradient(call, c.lhs, call.operands[0].local, c.out, b.gradient, c.rhs, b.operands[1]);
  }
  if (b.wants(1)) {
    grads[1] =
        gradient(call, c.rhs, call.operands[1].local, c.out, b.gradient, c.lhs, b.operands[0]);
  }
  return grads;
}

bool contract_covers(const Call& call) {
  const auto& index = call.op.get<ops::Contract>().index;
  return call.operands.size() == 2 && index.find('(') == std::string::npos;
}

}  // namespace

const Kernel kContractKernel = {"contract", contract_forward, contract_backward,
                                [](const ops::Op&) { return false; }, contract_covers};

}  // namespace tandem::runtime
