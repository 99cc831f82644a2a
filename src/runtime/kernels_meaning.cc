// The kernel of every operator without one of its own. It evaluates the operator's meaning element
// by element, on the CPU wherever the tensors are. It is correct for all operators, and thousands
// of times slower than a kernel of their own.
#include <algorithm>

#include "ops/signature.h"
#include "runtime/aten.h"
#include "runtime/factor_ranges.h"
#include "runtime/kernels.h"
#include "term/evaluate.h"

namespace tandem::runtime {

namespace {

using Values = Dense<double>;

Values from_aten(const at::Tensor& t, const Shape& shape) {
  // Tensors that are not saved for backward are not read either.
  if (!t.defined()) return Values(shape);
  const auto doubles = t.to(at::kCPU, at::kDouble).contiguous();
  const auto* data = doubles.data_ptr<double>();
  return {shape, std::vector<double>(data, data + doubles.numel())};
}

at::Tensor into_aten(const Values& values, at::Device device, at::ScalarType type) {
  auto out = at::empty(to_aten(values.shape), at::kDouble);
  std::ranges::copy(values.data, out.data_ptr<double>());
  return out.to(device, type);
}

// One call: the operands as blocks of whole tensors, and the factor ranges that they cover.
struct Problem {
  const ops::Signature& signature;
  std::vector<Values> values;

  Problem(const Call& call, std::span<const at::Tensor> operands) : signature(signature_of(call)) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      values.push_back(from_aten(operands[i], call.operands[i].local));
    }
  }

  [[nodiscard]] std::vector<term::FactorRange> ranges(const Call& call) const {
    return factor_ranges(call, signature);
  }

  [[nodiscard]] term::Evaluation<double> evaluation(const Call& call) const {
    std::vector<term::Operand<double>> operands;
    for (std::size_t i = 0; i < values.size(); ++i) {
      operands.emplace_back(values[i], call.operands[i].offset, call.operands[i].sizes);
    }
    return {signature.meaning, ranges(call), std::move(operands), call.draw};
  }
};

at::ScalarType real_type(std::span<const at::Tensor> tensors) {
  for (const auto& t : tensors) {
    if (t.defined() && t.is_floating_point()) return t.scalar_type();
  }
  return at::kFloat;
}

at::Tensor forward(const Call& call, std::span<const at::Tensor> in) {
  const Problem problem(call, in);
  const auto stated = call.op.spec().dtype(call.op.raw());
  return into_aten(problem.evaluation(call).forward(problem.signature.map.output), in[0].device(),
                   stated ? to_aten(*stated) : real_type(in));
}

Gradients from_result(const Problem& problem, const Call& call, const BackwardInput& b) {
  const auto& map = problem.signature.map;
  const auto box = term::box_of(map.output, problem.ranges(call));
  const auto whole = term::shape_of(map.output);
  const auto result = from_aten(b.result, box.size);
  const auto gradient = from_aten(b.gradient, box.size);
  term::Evaluation<double> evaluation(*problem.signature.gradient_from_result, problem.ranges(call),
                                      {{result, box.offset, whole}, {gradient, box.offset, whole}});
  return {
      into_aten(evaluation.forward(map.inputs[0]), b.gradient.device(), b.gradient.scalar_type())};
}

Gradients backward(const Call& call, const BackwardInput& b) {
  const Problem problem(call, b.operands);
  if (problem.signature.gradient_from_result && b.result.defined())
    return from_result(problem, call, b);
  auto evaluation = problem.evaluation(call);
  const auto shape = term::box_of(problem.signature.map.output, problem.ranges(call)).size;
  std::vector<Values> gradients;
  for (const auto& v : problem.values) gradients.emplace_back(v.shape);
  std::vector<Values*> wanted;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    wanted.push_back(b.wants(i) ? &gradients[i] : nullptr);
  }
  evaluation.backward(problem.signature.map.output, from_aten(b.gradient, shape), wanted);
  Gradients out(gradients.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!b.wants(i)) continue;
    out[i] = into_aten(gradients[i], b.gradient.device(), b.gradient.scalar_type());
  }
  return out;
}

}  // namespace

const Kernel kMeaningKernel = {"meaning", forward, backward};

}  // namespace tandem::runtime
