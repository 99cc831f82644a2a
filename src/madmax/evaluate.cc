#include "madmax/evaluate.h"

#include <algorithm>

namespace tandem::madmax {

IterationResult evaluate(const Model& model, const System& system, const TaskDescription& task) {
  return is_recommendation(model.family) ? evaluate_recommendation(model, system, task)
                                         : evaluate_transformer(model, system, task);
}

Seconds IterationResult::compute() const {
  return totals.get_time(Compute::kGemm) + totals.get_time(Compute::kEmbedding);
}

Seconds IterationResult::communication() const {
  Seconds out;
  for (const auto kind : totals.communication) out += kind;
  return out;
}

double IterationResult::throughput() const { return global_batch / iteration.value; }

Seconds IterationResult::exposed() const {
  // Without communication the difference is only rounding.
  return communication() > Seconds{} ? std::max(Seconds{}, iteration - compute()) : Seconds{};
}

double IterationResult::exposed_share() const {
  return communication() > Seconds{} ? exposed() / communication() : 0;
}

}  // namespace tandem::madmax
