#include "search/neighbours/step_layouts.h"

#include <algorithm>

#include "base/error.h"
#include "predict/folded.h"
#include "search/limits.h"
#include "search/neighbours/weight_storage.h"
#include "search/space/layout_network.h"
#include "strategies/grid.h"
#include "strategies/pipeline.h"
#include "strategies/weight_sharding.h"

namespace tandem::search {

namespace {

using strategies::Choices;
using strategies::Problem;

bool shards_weights(const Problem& problem, const Choices& choices) {
  const auto used = find_used_layouts(problem, choices);
  return std::ranges::any_of(problem.model.ids(), [&](graph::NodeId id) {
    const auto& layout = used[id.index()];
    return layout.count() > 0 && layout != choices[id.index()].source;
  });
}

void shard_weights(const Problem& problem, machine::DigitMask over, Choices& choices) {
  for (auto id : problem.model.ids()) {
    const auto& node = problem.model.node(id);
    if (!is_trained(node)) continue;
    auto& source = choices[id.index()].source;
    source = strategies::shard_weight(source, node.type.shape.sizes, over, problem.digits);
  }
}

// Returns the network for one micro-batch, or nullopt for a file whose graph has a fixed batch.
std::optional<graph::Graph> build_micro_batch(const KnownNetwork& known, std::int64_t micro) {
  try {
    return known.model->build(known.batch / micro, known.dtype);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Returns three layers of the network for one micro-batch, if its layers are equal, or the whole
// network if it is small. Else returns nullopt.
std::optional<graph::Graph> build_few_layers(const KnownNetwork& known, std::int64_t micro) {
  auto folded = predict::fold(*known.model, known.batch / micro, known.dtype);
  if (folded) return std::move(folded->graph);
  auto whole = build_micro_batch(known, micro);
  return whole && whole->size() <= limits::kPricedNodes ? std::move(whole) : std::nullopt;
}

// Returns how the costs of a setting's micro-batch add up to those of its step, or nullopt if the
// network has no such micro-batch.
std::optional<Pass> find_pass(const strategies::Setting& setting, const Problem& problem,
                              const Options& options) {
  const auto micro = setting.micro.value_or(1);
  if (!options.network || options.network->batch % micro != 0) return std::nullopt;
  const auto ranks = strategies::find_rank_digits(problem.digits, setting.pp).value();
  return Pass{.redundant = ranks,
              .stages = ranks,
              .times = static_cast<double>(micro) + static_cast<double>(setting.pp - 1) /
                                                        static_cast<double>(setting.interleave),
              .in_flight = static_cast<double>(std::min(micro, setting.pp))};
}

}  // namespace

std::optional<double> compute_layout_cost_ratio(const strategies::Setting& setting,
                                                const Problem& problem, predict::CostModel& costs,
                                                const Options& options) {
  const auto pass = find_pass(setting, problem, options);
  if (!pass) return std::nullopt;
  const auto graph = build_few_layers(*options.network, setting.micro.value_or(1));
  if (!graph) return std::nullopt;
  const Problem few(*graph, problem.digits);
  const auto made = make_pass(setting, few);
  const auto* seed = std::get_if<Choices>(&made);
  if (seed == nullptr) return std::nullopt;
  double out = 1;
  const std::vector<Choices> seeds = {*seed};
  for (const double async : {0.5, 1.0}) {
    const auto cost = [&](const Dims& dims, std::size_t states) {
      LayoutNetwork::Priced priced{predict::Prices{.async = async}};
      return LayoutNetwork(*graph, problem.digits, costs, dims, states, seeds, *pass).cost(priced);
    };
    const auto as_it_is = cost(options.dims, 0);
    for (const auto& dims : list_with_narrower(options.dims, few.nodes)) {
      out = std::min(out, cost(dims, options.states_per_node) / as_it_is);
    }
  }
  return out;
}

std::vector<Candidate> lay_out_step(const strategies::Setting& setting, const Problem& problem,
                                    predict::CostModel& costs, const Options& options,
                                    std::size_t& products) {
  const auto pass = find_pass(setting, problem, options);
  const auto as_it_is = make_pass(setting, problem);
  if (!pass || !std::holds_alternative<Choices>(as_it_is)) return {};
  const auto made = build_micro_batch(*options.network, setting.micro.value_or(1));
  if (!made || made->size() != problem.model.size()) return {};
  const auto& part = *made;
  const auto& seed = std::get<Choices>(as_it_is);
  const bool in_parts = shards_weights(problem, seed);
  std::vector<Choices> seen = {seed};
  std::vector<Candidate> out;
  const auto enter = [&](Choices choices) {
    if (std::ranges::find(seen, choices) != seen.end()) return;
    seen.push_back(choices);
    if (in_parts) shard_weights(problem, problem.digits.all() & ~pass->redundant, choices);
    auto step = make_step(setting, problem, std::move(choices));
    auto* made = std::get_if<strategies::StrategyStep>(&step);
    if (made == nullptr) return;
    out.push_back({"search:" + to_text(setting), std::move(made->choices), made->schedule});
  };
  std::vector<Choices> seeds = {seed};
  for (const auto& dims : list_with_narrower(options.dims, problem.nodes)) {
    const LayoutNetwork network(part, problem.digits, costs, dims, options.states_per_node, seeds,
                                *pass);
    for (const double async : {0.5, 1.0}) {
      auto solution = network.solve(predict::Prices{.async = async});
      products += solution.computed_tables;
      enter(solution.choices);
      seeds.push_back(std::move(solution.choices));
    }
  }
  return out;
}

}  // namespace tandem::search
