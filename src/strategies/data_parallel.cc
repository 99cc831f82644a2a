#include "strategies/strategies.h"

namespace tandem::strategies {

Made data_parallel(const Problem& problem) {
  return spread(problem, std::vector<Job>(problem.model.size(), {.data = problem.digits.all()}));
}

Made fully_sharded(const Problem& problem) {
  const auto all = problem.digits.all();
  return spread(problem, std::vector<Job>(problem.model.size(), {.data = all, .stored = all}));
}

}  // namespace tandem::strategies
