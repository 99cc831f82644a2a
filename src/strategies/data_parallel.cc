#include "strategies/strategies.h"

namespace tandem::strategies {

Made make_data_parallel(const Problem& problem) {
  return spread(problem,
                std::vector<OperatorDigits>(problem.model.size(), {.data = problem.digits.all()}));
}

Made make_fully_sharded(const Problem& problem) {
  const auto all = problem.digits.all();
  return spread(problem,
                std::vector<OperatorDigits>(problem.model.size(), {.data = all, .stored = all}));
}

}  // namespace tandem::strategies
