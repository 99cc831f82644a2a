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
struct EvaluationProblem {
  const ops::Signature& signature;
  std::vector<Values> values;

  EvaluationProblem(const Call& call, std::span<const at::Tensor> operands)
      : signature(get_signature(call)) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      values.push_back(from_aten(operands[i], call.operands[i].local));
    }
  }

  [[nodiscard]] std::vector<term::FactorRange> compute_ranges(const Call& call) const {
    return compute_factor_ranges(call, signature);
  }

  [[nodiscard]] term::Evaluation<double> make_evaluation(const Call& call) const {
    std::vector<term::Operand<double>> operands;
    for (std::size_t i = 0; i < values.size(); ++i) {
      operands.emplace_back(values[i], call.operands[i].offset, call.operands[i].sizes);
    }
    return {signature.meaning, compute_ranges(call), std::move(operands), call.draw};
  }
};

at::ScalarType find_real_type(std::span<const at::Tensor> tensors) {
  for (const auto& t : tensors) {
    if (t.defined() && t.is_floating_point()) return t.scalar_type();
  }
  return at::kFloat;
}

at::Tensor meaning_forward(const Call& call, std::span<const at::Tensor> in) {
  const EvaluationProblem problem(call, in);
  const auto stated = call.op.spec().dtype(call.op.raw());
  return into_aten(problem.make_evaluation(call).forward(problem.signature.map.output),
                   in[0].device(), stated ? to_aten(*stated) : find_real_type(in));
}

Gradients meaning_backward_from_result(const EvaluationProblem& problem, const Call& call,
                                       const BackwardInput& b) {
  const auto& map = problem.signature.map;
  const auto box = term::compute_box(map.output, problem.compute_ranges(call));
  const auto whole = term::to_shape(map.output);
  const auto result = from_aten(b.result, box.size);
  const auto gradient = from_aten(b.gradient, box.size);
  term::Evaluation<double> evaluation(*problem.signature.gradient_from_result,
                                      problem.compute_ranges(call),
                                      {{result, box.offset, whole}, {gradient, box.offset, whole}});
  return {
      into_aten(evaluation.forward(map.inputs[0]), b.gradient.device(), b.gradient.scalar_type())};
}

Gradients meaning_backward(const Call& call, const BackwardInput& b) {
  const EvaluationProblem problem(call, b.operands);
  if (problem.signature.gradient_from_result && b.result.defined())
    return meaning_backward_from_result(problem, call, b);
  auto evaluation = problem.make_evaluation(call);
  const auto shape =
      term::compute_box(problem.signature.map.output, problem.compute_ranges(call)).size;
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

const Kernel kMeaningKernel = {"meaning", meaning_forward, meaning_backward};

}  // namespace tandem::runtime
