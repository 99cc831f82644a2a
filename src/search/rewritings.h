// Algebra and layouts at once: rewritings of a model, best first, each ranked by what its cheapest
// layouts cost - not by its time on one device, since what is best there may forbid the layouts
// that are best on many.
#pragma once

#include <memory>
#include <vector>

#include "machine/machine.h"
#include "search/rewritten.h"
#include "search/search.h"
#include "strategies/setting.h"

namespace tandem::search {

struct Ranking {
  std::vector<std::shared_ptr<const Rewritten>> best;  // without the model itself; best first
  std::size_t ranked = 0;                              // graphs
  bool is_complete = false;                            // nothing else was in reach
};

struct RankingOptions {
  std::vector<strategies::Setting> seeds = {};  // whose layouts are among those compared
  std::size_t keep = 2;                         // of those that are cheaper than the model
  bool one_device = false;  // ranked by the time on one device after all: `--search sequential`
};

// By the shipped rules that are proved. Of options.network three layers are rewritten, and what is
// best is then done to all; where there is none the model itself is.
Ranking rank_rewritings(const graph::Graph& model, const machine::Machine& machine,
                        const machine::Digits& digits, const Options& search,
                        const RankingOptions& options);

}  // namespace tandem::search
