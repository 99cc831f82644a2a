#include "madmax/evaluate.h"

#include <algorithm>

namespace tandem::madmax {

Result evaluate(const Model& model, const System& system, const Task& task) {
  return is_recommendation(model.family) ? evaluate_recommendation(model, system, task)
                                         : evaluate_transformer(model, system, task);
}

Seconds Result::compute() const {
  return totals.of(Compute::kGemm) + totals.of(Compute::kEmbedding);
}

Seconds Result::communication() const {
  Seconds out;
  for (const auto kind : totals.communication) out += kind;
  return out;
}

double Result::throughput() const { return global_batch / iteration.value; }

Seconds Result::exposed() const {
  // Without communication the difference is only rounding.
  return communication() > Seconds{} ? std::max(Seconds{}, iteration - compute()) : Seconds{};
}

double Result::exposed_share() const {
  return communication() > Seconds{} ? exposed() / communication() : 0;
}

}  // namespace tandem::madmax
