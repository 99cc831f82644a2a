#include "search/rewritten_strategies.h"

#include "strategies/grid.h"

namespace tandem::search {

std::vector<Candidate> enter_rewritten_strategies(CandidatePool& pool,
                                                  const strategies::Problem& problem,
                                                  const std::shared_ptr<const Rewritten>& rewritten,
                                                  const std::vector<strategies::Setting>& settings,
                                                  std::size_t most) {
  std::vector<Candidate> candidates;
  for (const auto& setting : settings) {
    if (candidates.size() == most) break;
    auto made = make_strategy(setting, problem);
    auto* strategy = std::get_if<strategies::Strategy>(&made);
    if (strategy == nullptr || !pool.is_within_dims(problem, strategy->choices)) continue;
    candidates.push_back(make_candidate(std::move(*strategy)));
    candidates.back().name.insert(0, "search:");
    candidates.back().rewritten = rewritten;
  }
  pool.enter_without_records(candidates);
  return candidates;
}

}  // namespace tandem::search
