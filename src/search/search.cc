#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>

#include "base/text.h"
#include "lower/lower.h"
#include "search/grid_search.h"
#include "search/layout_network.h"
#include "strategies/grid.h"

namespace tandem::search {

namespace {

class Search {
  static constexpr std::size_t kPerFamily = 8;
  static constexpr std::size_t kVaried = 32;    // of the grid
  static constexpr std::size_t kSimulated = 8;  // of these
  static constexpr std::size_t kLargeSimulated = 3;
  static constexpr std::size_t kLargeNodes = 2000;

 public:
  Search(const graph::Graph& model, const machine::Machine& machine, const Options& options)
      : model_(model), machine_(machine), options_(options), digits_(machine) {
    result_.limits = memory_limits(machine, options);
  }

  Result run() {
    const auto start = std::chrono::steady_clock::now();
    result_.stop_reason = "done";
    cost_baselines();
    cost_grid();
    if (options_.semantics == plan::Semantics::kSynchronous) search_layouts();
    result_.search_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

 private:
  void search_layouts() {
    CostModel costs(machine_, digits_, options_.optimizer, options_.precision);
    const LayoutNetwork network(model_, digits_, costs, options_.dims, options_.states_per_node,
                                seeds_);
    // Communication that nothing overlaps adds to the operators' compute, and so do updates, but
    // those two may overlap each other.
    const Seconds bound{std::max(solve(network, {.update = 0, .async = 0}),
                                 solve(network, {.blocking = 0, .async = 0}))};
    if (result_.stop_reason == "done" && machine_.groups.empty()) result_.lower_bound = bound;
    for (const double async : {0.0, 0.5, 1.0}) solve(network, {.async = async});
    // Of a large network what saves memory by strategy is enough: each price costs a simulation.
    const bool has_plan = is_large() && result_.best;
    if (!fits_without_price_ && !has_plan) raise_memory_price(network);
    // The bound is that of weights stored as they are used; a baseline may store them in parts,
    // and update less on every device.
    if (result_.best && result_.lower_bound &&
        result_.best->simulation.iteration < *result_.lower_bound) {
      result_.lower_bound.reset();
    }
  }

  void cost_baselines() {
    const strategies::Problem problem(model_, digits_);
    auto settings = settings_for(problem, options_.semantics);
    // Megatron is one without it, too.
    if (!options_.dims.sequence) std::erase_if(settings, [](const auto& s) { return s.sp; });
    for (const auto& setting : shortened(problem, settings)) {
      auto made = make_strategy(setting, problem);
      if (const auto* strategy = std::get_if<strategies::Strategy>(&made)) add_baseline(*strategy);
    }
    if (result_.baselines.empty()) {
      throw UserError("search", model_.name(),
                      "it has no pipeline here whose updates may be delayed",
                      "without --stale-weights");
    }
    choose_seeds();
  }

  // Of each family those that are the fastest by estimate, and those that have none.
  std::vector<strategies::Setting> shortened(const strategies::Problem& problem,
                                             const std::vector<strategies::Setting>& settings) {
    if (!can_estimate()) return settings;
    std::vector<strategies::Setting> out;
    for (auto from = settings.begin(); from != settings.end();) {
      const auto to = std::find_if(from, settings.end(),
                                   [&](const auto& s) { return s.family != from->family; });
      const auto estimated = estimate(problem, {from, to});
      for (const auto& e : estimated) {
        if (!e.point) out.push_back(e.setting);
      }
      std::ranges::move(promising(estimated, is_large() ? 1 : kPerFamily), std::back_inserter(out));
      from = to;
    }
    return out;
  }

  // Strategies of which there are too many to simulate each.
  void cost_grid() {
    if (!can_estimate()) return;
    const strategies::Problem problem(model_, digits_);
    auto settings = grid_settings(problem);
    std::erase_if(settings, [&](const auto& s) {
      return (s.sp && !options_.dims.sequence) || (s.pp > 1 && !options_.dims.pipeline);
    });
    auto estimated = estimate(problem, settings);
    const auto more = varied(promising(estimated, kVaried), options_.network->batch);
    std::ranges::move(estimate(problem, more), std::back_inserter(estimated));
    for (const auto& setting :
         promising(std::move(estimated), is_large() ? kLargeSimulated : kSimulated)) {
      auto made = make_strategy(setting, problem);
      const auto* strategy = std::get_if<strategies::Strategy>(&made);
      if (strategy == nullptr || !is_within_dims(strategy->choices)) continue;
      consider(cost(strategy->name, strategy->choices, strategy->schedule));
    }
  }

  [[nodiscard]] bool can_estimate() const {
    return options_.network && options_.semantics == plan::Semantics::kSynchronous &&
           machine_.groups.empty();
  }
  // Simulating one strategy of it takes a good part of a second.
  [[nodiscard]] bool is_large() const { return model_.size() >= kLargeNodes; }

  [[nodiscard]] Case case_of(const strategies::Problem& problem) const {
    return {.values = {},
            .problem = &problem,
            .machine = &machine_,
            .batch = options_.network->batch,
            .optimizer = options_.optimizer,
            .precision = [this](auto) { return options_.precision; },
            .limits = result_.limits,
            .network = options_.network->model,
            .dtype = options_.network->dtype};
  }
  std::vector<Estimated> estimate(const strategies::Problem& problem,
                                  const std::vector<strategies::Setting>& settings) {
    auto out = estimate_all(case_of(problem), settings);
    result_.estimated += out.size();
    return out;
  }

  // The best of a family stands for it. Settings that come to the same choices are costed once.
  void add_baseline(const strategies::Strategy& strategy) {
    const auto same = std::ranges::find(tried_, strategy.choices, &Tried::choices);
    auto costed = same == tried_.end() ? cost(strategy.name, strategy.choices, strategy.schedule)
                                       : same->costed;
    costed.name = strategy.name;
    costed.family = name(strategy.setting.family);
    if (same == tried_.end()) {
      tried_.push_back({strategy.choices, costed});
      if (is_within_dims(strategy.choices)) consider(costed);
    }
    auto& baselines = result_.baselines;
    if (baselines.empty() || baselines.back().family != costed.family) {
      baselines.push_back(std::move(costed));
    } else if (is_better(costed, baselines.back())) {
      baselines.back() = std::move(costed);
    }
  }

  // The best few of every family seed the search; all of them would leave no room for states of its
  // own.
  void choose_seeds() {
    std::ranges::stable_sort(
        tried_, [](const Tried& a, const Tried& b) { return is_better(a.costed, b.costed); });
    std::map<std::string, std::size_t> taken;
    for (auto& [choices, costed] : tried_) {
      if (is_within_dims(choices) && taken[costed.family]++ < kPerFamily) {
        seeds_.push_back(std::move(choices));
      }
    }
    tried_.clear();
  }

  // Does a baseline keep to the dimensions the user allows? Only then may it win or seed.
  [[nodiscard]] bool is_within_dims(const std::vector<plan::Choice>& choices) const {
    const auto nodes = strategies::analyze(model_);
    for (auto id : model_.ids()) {
      const auto& node = nodes[id.index()];
      for (auto use : choices[id.index()].node.uses) {
        if (use.is_factor() && !is_allowed(node, use.factor(), options_.dims)) return false;
      }
    }
    return true;
  }

  Costed cost(const std::string& name, const std::vector<plan::Choice>& choices,
              plan::Schedule schedule = {}) {
    ++result_.candidates;
    schedule.precision = options_.precision;
    return cost_choices(model_, machine_, name, choices, schedule, options_.optimizer,
                        result_.limits);
  }

  void consider(const Costed& costed) {
    if (result_.smallest.name.empty() || costed.over < result_.smallest.over) {
      result_.smallest = costed;
    }
    if (costed.feasible && (!result_.best || is_better(costed, *result_.best))) {
      result_.best = costed;
    }
    if (!options_.progress) return;
    options_.progress(result_.candidates, result_.best
                                              ? std::optional(result_.best->simulation.iteration)
                                              : std::nullopt);
  }

  // Returns the network's cost; considers the solution.
  double solve(const LayoutNetwork& network, const Prices& prices) {
    auto solution = network.solve(prices);
    result_.products += solution.products;
    if (!solution.exact) result_.stop_reason = "pinned";
    const auto costed = cost("search", solution.choices);
    last_fits_ = costed.feasible;
    fits_without_price_ = fits_without_price_ || (costed.feasible && prices.per_byte == 0);
    consider(costed);
    return solution.cost;
  }

  // Doubles the price of a byte until the solution fits, then halves the gap a few times: the
  // cheapest price that fits gives up the least time.
  void raise_memory_price(const LayoutNetwork& network) {
    const auto least = std::ranges::min(result_.limits);
    const double scale = result_.smallest.simulation.iteration / Seconds{1} / least.value;
    double low = 0;
    double high = scale / 64;
    constexpr int kDoublings = 24;
    constexpr int kHalvings = 6;
    int doublings = 0;
    while (true) {
      solve(network, {.async = 0.5, .per_byte = high});
      if (last_fits_) break;
      if (++doublings == kDoublings) return;
      low = high;
      high *= 2;
    }
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      solve(network, {.async = 0.5, .per_byte = middle});
      (last_fits_ ? high : low) = middle;
    }
  }

  struct Tried {
    std::vector<plan::Choice> choices;
    Costed costed;
  };

  const graph::Graph& model_;
  const machine::Machine& machine_;
  const Options& options_;
  machine::Digits digits_;
  std::vector<Tried> tried_;  // baselines, until seeds are chosen from them
  std::vector<std::vector<plan::Choice>> seeds_;
  bool fits_without_price_ = false;
  bool last_fits_ = false;
  Result result_;
};

}  // namespace

std::vector<Bytes> memory_limits(const machine::Machine& machine, const Options& options) {
  const auto limit = [&](const machine::Device& device) {
    return options.memory.value_or(device.memory - device.reserve);
  };
  if (machine.groups.empty()) return {limit(machine.device)};
  std::vector<Bytes> out;
  for (const auto& group : machine.groups) out.push_back(limit(group.device));
  return out;
}

Tightest tightest(const sim::Simulation& simulation, const std::vector<Bytes>& limits) {
  Tightest out;
  for (std::size_t g = 0; g < limits.size(); ++g) {
    const auto& needs = simulation.group_memory[g];
    if (g > 0 && needs.peak - limits[g] <= out.needs.peak - out.limit) continue;
    out = {g, needs, limits[g]};
  }
  return out;
}

std::string shortage_text(const Tightest& tightest, const machine::Machine& machine) {
  const auto whose = machine.groups.empty()
                         ? std::string()
                         : fmt::format(" of group '{}'", machine.groups[tightest.group].name);
  return fmt::format("{} a device{} and {} may be used", bytes_text(tightest.needs.peak.value),
                     whose, bytes_text(tightest.limit.value));
}

Costed cost_choices(const graph::Graph& model, const machine::Machine& machine,
                    const std::string& name, const std::vector<plan::Choice>& choices,
                    const plan::Schedule& schedule, plan::Optimizer optimizer,
                    const std::vector<Bytes>& limits, lower::Phase phase) {
  const machine::Digits digits(machine, schedule.micro_batches);
  auto mapped = plan::parallelize(model, digits, choices, schedule);
  auto out =
      costed(name, sim::simulate(lower::lower(mapped, digits, optimizer, phase), machine), limits);
  out.mapped = std::move(mapped);
  return out;
}

Costed costed(std::string name, sim::Simulation simulation, const std::vector<Bytes>& limits) {
  const auto most = tightest(simulation, limits);
  std::string family = name;
  return {.name = std::move(name),
          .family = std::move(family),
          .mapped = {},
          .simulation = std::move(simulation),
          .over = most.needs.peak - most.limit,
          .feasible = most.fits()};
}

bool is_better(const Costed& a, const Costed& b) {
  if (a.feasible != b.feasible) return a.feasible;
  return a.feasible ? a.simulation.iteration < b.simulation.iteration : a.over < b.over;
}

Result search(const graph::Graph& model, const machine::Machine& machine, const Options& options) {
  return Search(model, machine, options).run();
}

}  // namespace tandem::search
