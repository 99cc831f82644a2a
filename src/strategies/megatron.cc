#include "strategies/strategies.h"

namespace tandem::strategies {

Made megatron(const Problem& problem, machine::DigitMask tensor, bool sequence_parallel,
              machine::DigitMask ranks) {
  if (sequence_parallel && !problem.has_sequence()) {
    return Refusal{"sp needs a sequence, and " + problem.model.name() + " has none", ""};
  }
  const Job job{.data = problem.digits.all() & ~tensor & ~ranks,
                .split = tensor,
                .rest = sequence_parallel ? Rest::kSequence : Rest::kRedundant};
  return spread(problem, std::vector<Job>(problem.model.size(), job));
}

}  // namespace tandem::strategies
