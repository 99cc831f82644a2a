#include <fmt/format.h>

#include "strategies/strategies.h"

namespace tandem::strategies {

Made megatron(const Problem& problem, machine::DigitMask tensor, bool sequence_parallel,
              machine::DigitMask context, machine::DigitMask ranks) {
  if ((sequence_parallel || context != 0) && !problem.has_sequence()) {
    return Refusal{fmt::format("{} needs a sequence, and {} has none",
                               sequence_parallel ? "sp" : "cp", problem.model.name()),
                   ""};
  }
  const Job job{.data = problem.digits.all() & ~tensor & ~context & ~ranks,
                .sequence = context,
                .split = tensor,
                .rest = sequence_parallel ? Rest::kSequence : Rest::kRedundant};
  return spread(problem, std::vector<Job>(problem.model.size(), job));
}

}  // namespace tandem::strategies
