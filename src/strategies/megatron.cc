#include <fmt/format.h>

#include "strategies/strategies.h"

namespace tandem::strategies {

Made megatron(const Problem& problem, machine::DigitMask tensor, bool sequence_parallel,
              machine::DigitMask context, machine::DigitMask ranks, bool stored) {
  if ((sequence_parallel || context != 0) && !problem.has_sequence()) {
    return Refusal{fmt::format("{} needs a sequence, and {} has none",
                               sequence_parallel ? "sp" : "cp", problem.model.name()),
                   ""};
  }
  const auto data = problem.digits.all() & ~tensor & ~context & ~ranks;
  const Job job{.data = data,
                .sequence = context,
                .split = tensor,
                .rest = sequence_parallel ? Rest::kSequence : Rest::kRedundant,
                .stored = stored ? data | context : 0};
  std::vector<Job> jobs(problem.model.size(), job);
  // A loss is computed in parts, too, or every device would need the scores of all words.
  for (auto id : problem.model.ids()) {
    const auto& node = problem.model.node(id);
    const bool is_loss = node.op.role() == ops::Role::kCompute && node.type.shape.rank() == 0;
    if (is_loss) jobs[id.index()].rest = Rest::kSequence;
  }
  return spread(problem, jobs);
}

}  // namespace tandem::strategies
