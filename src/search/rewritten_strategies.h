// Plain strategies of a rewritten graph.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "search/pool.h"

namespace tandem::search {

// Enters the first `most` of the settings that are possible for the rewritten graph, whose problem
// is `problem`, within the allowed dimensions. Returns them, evaluated or not.
std::vector<Candidate> enter_rewritten_strategies(CandidatePool& pool,
                                                  const strategies::Problem& problem,
                                                  const std::shared_ptr<const Rewritten>& rewritten,
                                                  const std::vector<strategies::Setting>& settings,
                                                  std::size_t most);

}  // namespace tandem::search
