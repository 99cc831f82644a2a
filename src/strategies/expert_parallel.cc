// Expert parallelism. Tokens are split along the batch before and after the experts. In between,
// the expert factor takes the digits. This gives MoE's pair of all-to-alls, which only send the
// tokens that an expert gets.
#include "ops/registry.h"
#include "strategies/strategies.h"

namespace tandem::strategies {

Made make_expert_parallel(const Problem& problem, machine::DigitMask experts) {
  const auto all = problem.digits.all();
  std::vector<OperatorDigits> jobs(problem.model.size(), {.data = all});
  for (auto id : problem.model.ids()) {
    if (problem.layers[id.index()] != LayerKind::kExperts || sends_tokens(problem.model.node(id))) {
      continue;
    }
    jobs[id.index()] = {.data = all & ~experts, .split = experts, .start = Start::kParts};
  }
  return spread(problem, jobs);
}

machine::DigitMask find_expert_digits(const Problem& problem) {
  for (auto id : problem.model.ids()) {
    const auto& node = problem.model.node(id);
    if (!node.op.is(ops::kMoeDispatch)) continue;
    return find_dividing_digits(problem.digits, problem.digits.all(), node.type.shape.sizes[0]);
  }
  return 0;
}

}  // namespace tandem::strategies
