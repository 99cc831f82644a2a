// Searches rewrites and layouts together. Each rewritten graph is ranked by the cost of its
// cheapest layouts, not by its time on one device. The graph that is best on one device may forbid
// the layouts that are best on many.
//
// Example with alpha = 1.05: the model costs 10 ms. One rewrite costs 11 ms and is dropped, another
// one costs 10.4 ms and is retained. A further rewrite of it costs 8 ms and becomes the best.
#pragma once

#include <memory>
#include <vector>

#include "rewrite/rule.h"
#include "search/pool.h"
#include "strategies/setting.h"

namespace tandem::search {

struct Ranking {
  std::vector<std::shared_ptr<const Rewritten>> best;  // without the model itself; best first
  std::size_t ranked = 0;                              // number of graphs
  bool is_complete = false;                            // whether no other graph was reachable
  double least = 0;                                    // cost of the cheapest of all graphs
};

struct RankingOptions {
  std::vector<strategies::Setting> initial_settings =
      {};                      // settings whose layouts are always compared
  std::size_t max_graphs = 2;  // most graphs to return; all are cheaper than the model
  bool one_device = false;     // ranks by the time on one device: `--search sequential`
  double per_byte = 0;         // price of a byte in seconds, if memory is scarce
  bool saves = true;           // whether layouts may shard weights and recompute results
};

// Returns the shipped and proved rules that act on whole tensors and have no free choices. Rules on
// how tensors are sharded are left out.
std::vector<rewrite::Rule> list_algebraic_rules();

// Ranks rewrites of the pool's model until the search is over. With options().network, it rewrites
// three of the network's layers and applies the best rewrites to all layers. Without one it
// rewrites the model itself.
Ranking rank_rewrites(CandidatePool& pool, const RankingOptions& options);

}  // namespace tandem::search
