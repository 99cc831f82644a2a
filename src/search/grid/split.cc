#include "search/grid/split.h"

#include <algorithm>

#include "strategies/grid.h"
#include "strategies/pipeline.h"

namespace tandem::search {

std::vector<Split> list_splits(const strategies::Problem& problem, std::int64_t batch,
                               const SplitOptions& options) {
  const auto& digits = problem.digits;
  const auto devices = digits.devices();
  const auto tensor_groups = strategies::list_tensor_groups(digits);
  const bool has_sequence = options.sequence && problem.has_sequence();
  std::vector<Split> out;
  for (std::int64_t pp = 1; pp <= std::min(devices, options.stages); ++pp) {
    if (devices % pp != 0) continue;
    const auto ranks = strategies::find_rank_digits(digits, pp);
    if (!ranks) continue;
    for (const auto& [tp, tensor] : tensor_groups) {
      if ((tensor & *ranks) != 0) continue;
      const auto left = devices / pp / tp;
      for (std::int64_t cp = 1; cp <= (has_sequence ? left : 1); ++cp) {
        if (left % cp != 0 || batch % (left / cp) != 0) continue;
        const auto context = strategies::find_context_digits(digits, cp, tensor | *ranks);
        if (!context) continue;
        const auto data = digits.all() & ~(tensor | *context | *ranks);
        out.push_back({tp, cp, pp, left / cp, 1, tensor, *context, *ranks, data});
      }
    }
  }
  for (const auto ep : strategies::list_expert_degrees(problem)) {
    if (ep > 1 && batch % devices == 0) {
      out.push_back({1, 1, 1, devices, ep, 0, 0, 0, digits.all()});
    }
  }
  return out;
}

}  // namespace tandem::search
