#include "search/neighbours/taso_flexflow.h"

#include "search/neighbours/rewrite_ranking.h"
#include "search/pool.h"
#include "search/space/layout_network.h"
#include "strategies/grid.h"

namespace tandem::search {

std::vector<Candidate> walk_layouts(CandidatePool& pool,
                                    const std::shared_ptr<const Rewritten>& rewritten,
                                    Finder finder) {
  const auto& options = pool.options();
  const Dims dims = {.data = options.dims.data,
                     .model = options.dims.model,
                     .spatial = options.dims.spatial,
                     .reduction = false,
                     .head = false,
                     .expert = false,
                     .sequence = false,
                     .pipeline = false};
  finder.by = Finder::By::kWalk;
  const auto& graph = rewritten ? rewritten->graph : pool.model();
  // A walk begins at data parallelism.
  const strategies::Problem problem(graph, pool.digits());
  const auto dp = make_strategies({{.family = strategies::Family::kDp}}, problem);
  std::vector<strategies::Choices> seeds;
  seeds.reserve(dp.size());
  for (const auto& strategy : dp) seeds.push_back(strategy.choices);
  const LayoutNetwork network(graph, pool.digits(), pool.costs(), dims, options.states_per_node,
                              seeds);
  std::vector<Candidate> out;
  for (const double async : {0.0, 0.5, 1.0}) {
    auto solution = network.solve(predict::Prices{.async = async}, finder);
    out.push_back({kTasoFlexflow, std::move(solution.choices), {}, true, rewritten});
  }
  return out;
}

Evaluated search_taso_flexflow(const graph::Graph& model, const machine::Machine& machine,
                               Options options) {
  options.dims = {};
  CandidatePool pool(model, machine, options);
  const auto ranked = rank_rewrites(pool, {.max_graphs = 1, .one_device = true});
  pool.enter(walk_layouts(pool, ranked.best.empty() ? nullptr : ranked.best[0], options.finder));
  auto& result = pool.result();
  return std::move(result.best ? *result.best : result.smallest);
}

}  // namespace tandem::search
