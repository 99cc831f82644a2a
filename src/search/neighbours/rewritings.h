// Algebra and layouts at once: rewritings of a model, best first, each ranked by what its cheapest
// layouts cost - not by its time on one device, since what is best there may forbid the layouts
// that are best on many.
#pragma once

#include <memory>
#include <vector>

#include "rewrite/rule.h"
#include "search/pool.h"
#include "strategies/setting.h"

namespace tandem::search {

struct Ranking {
  std::vector<std::shared_ptr<const Rewritten>> best;  // without the model itself; best first
  std::size_t ranked = 0;                              // graphs
  bool is_complete = false;                            // nothing else was in reach
  double least = 0;                                    // what the cheapest of all costs
};

struct RankingOptions {
  std::vector<strategies::Setting> seeds = {};  // whose layouts are among those compared
  std::size_t keep = 2;                         // of those that are cheaper than the model
  bool one_device = false;  // ranked by the time on one device after all: `--search sequential`
  double per_byte = 0;      // what a byte costs, in seconds, where memory is scarce
  bool saves = true;        // may weights be stored in parts, and results be computed again?
};

// Of the rules that are shipped and proved, those on whole tensors that leave nothing to be chosen;
// how tensors are spread is not theirs.
std::vector<rewrite::Rule> algebraic_rules();

// Ranks rewritings of the pool's model by these rules, until the search is over. Three layers of
// options().network are rewritten, and what is best is then done to all; without one the model
// itself is.
Ranking rank_rewritings(CandidatePool& pool, const RankingOptions& options);

}  // namespace tandem::search
