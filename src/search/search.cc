#include "search/search.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>

#include "base/parallel.h"
#include "search/contest.h"
#include "search/grid_search.h"
#include "search/layout_network.h"
#include "search/sharing_search.h"
#include "strategies/grid.h"

namespace tandem::search {

namespace {

using strategies::Setting;
using strategies::Strategy;

class Search {
  static constexpr std::size_t kPerFamily = 8;
  static constexpr std::size_t kWholeGrid = 300;  // of MAD-Max's grid; of a larger one a part
  static constexpr std::size_t kVaried = 32;      // of the grid
  static constexpr std::size_t kSimulated = 8;    // of these
  static constexpr std::size_t kLargeSimulated = 3;
  static constexpr std::size_t kLargeNodes = 2000;

 public:
  Search(const graph::Graph& model, const machine::Machine& machine, const Options& options)
      : model_(model),
        machine_(machine),
        options_(options),
        digits_(machine),
        contest_(model, machine, options) {}

  Result run() {
    const auto start = std::chrono::steady_clock::now();
    cost_baselines();
    cost_grid();
    if (options_.semantics == plan::Semantics::kSynchronous) search_layouts();
    auto& out = contest_.result();
    out.search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(out);
  }

 private:
  // --- Strategies -------------------------------------------------------------------------------

  void cost_baselines() {
    const strategies::Problem problem(model_, digits_);
    auto settings = settings_for(problem, options_.semantics);
    // Megatron is one without it, too.
    if (!options_.dims.sequence) std::erase_if(settings, [](const auto& s) { return s.sp; });
    std::vector<Strategy> made;
    for (const auto& setting : shortened(problem, settings)) {
      auto strategy = make_strategy(setting, problem);
      if (auto* of_it = std::get_if<Strategy>(&strategy)) made.push_back(std::move(*of_it));
    }
    if (made.empty()) {
      throw UserError("search", model_.name(),
                      "it has no pipeline here whose updates may be delayed",
                      "without --stale-weights");
    }
    cost_baselines(made);
  }

  // Of each family those that are the fastest by estimate, and those that have none.
  std::vector<Setting> shortened(const strategies::Problem& problem,
                                 const std::vector<Setting>& settings) {
    if (!can_estimate()) return settings;
    std::vector<Setting> out;
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

  // Settings that come to the same choices are costed once.
  void cost_baselines(const std::vector<Strategy>& strategies) {
    std::vector<Candidate> distinct;
    std::vector<std::size_t> which;
    for (const auto& s : strategies) {
      const auto same = std::ranges::find(distinct, s.choices, &Candidate::choices);
      which.push_back(static_cast<std::size_t>(same - distinct.begin()));
      if (same != distinct.end()) continue;
      distinct.push_back({s.name, s.choices, s.schedule, is_within_dims(s.choices)});
    }
    const auto costed = contest_.enter(distinct);
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      if (costed[which[i]]) add_baseline(strategies[i], *costed[which[i]]);
    }
    choose_seeds(std::move(distinct), costed);
  }

  // The best of a family stands for it.
  void add_baseline(const Strategy& strategy, Costed costed) {
    costed.name = strategy.name;
    costed.family = name(strategy.setting.family);
    auto& baselines = contest_.result().baselines;
    if (baselines.empty() || baselines.back().family != costed.family) {
      baselines.push_back(std::move(costed));
    } else if (is_better(costed, baselines.back())) {
      baselines.back() = std::move(costed);
    }
  }

  // The best few of every family seed the layout search; all of them would leave no room for states
  // of its own.
  void choose_seeds(std::vector<Candidate> candidates,
                    const std::vector<std::optional<Costed>>& costed) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (costed[i] && candidates[i].may_win) order.push_back(i);
    }
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return is_better(*costed[a], *costed[b]); });
    std::map<std::string, std::size_t> taken;
    for (auto i : order) {
      const auto family = candidates[i].name.substr(0, candidates[i].name.find(':'));
      if (taken[family]++ < kPerFamily) seeds_.push_back(std::move(candidates[i].choices));
    }
  }

  // Strategies of which there are too many to simulate each.
  void cost_grid() {
    if (contest_.is_over() || options_.semantics != plan::Semantics::kSynchronous) return;
    const strategies::Problem problem(model_, digits_);
    auto settings = grid_settings(problem);
    std::erase_if(settings, [&](const auto& s) {
      return (s.sp && !options_.dims.sequence) || (s.pp > 1 && !options_.dims.pipeline);
    });
    std::vector<Estimated> estimated;
    if (can_estimate()) estimated = estimate(problem, settings);
    if (std::ranges::none_of(estimated, [](const auto& e) { return e.point.has_value(); })) {
      const auto may_win = [this](const auto& choices) { return is_within_dims(choices); };
      if (!is_large()) enter_shardings(contest_, problem, may_win);
      return;
    }
    std::ranges::move(try_shardings(problem, kWholeGrid,
                                    [&](const auto& some) { return estimate(problem, some); }),
                      std::back_inserter(estimated));
    const auto more = varied(promising(estimated, kVaried), options_.network->batch);
    std::ranges::move(estimate(problem, more), std::back_inserter(estimated));
    std::vector<Candidate> candidates;
    for (const auto& setting : promising(estimated, is_large() ? kLargeSimulated : kSimulated)) {
      auto made = make_strategy(setting, problem);
      auto* strategy = std::get_if<Strategy>(&made);
      if (strategy == nullptr || !is_within_dims(strategy->choices)) continue;
      candidates.push_back({strategy->name, std::move(strategy->choices), strategy->schedule});
    }
    contest_.enter(candidates);
  }

  [[nodiscard]] bool can_estimate() const {
    return options_.network && options_.semantics == plan::Semantics::kSynchronous &&
           machine_.groups.empty();
  }
  // Simulating one strategy of it takes a good part of a second.
  [[nodiscard]] bool is_large() const { return model_.size() >= kLargeNodes; }

  std::vector<Estimated> estimate(const strategies::Problem& problem,
                                  const std::vector<Setting>& settings) {
    const Case on = {.values = {},
                     .problem = &problem,
                     .machine = &machine_,
                     .batch = options_.network->batch,
                     .optimizer = options_.optimizer,
                     .precision = [this](auto) { return options_.precision; },
                     .limits = contest_.result().limits,
                     .network = options_.network->model,
                     .dtype = options_.network->dtype};
    auto out = estimate_all(on, settings);
    contest_.result().estimated += out.size();
    return out;
  }

  // Does a strategy keep to the dimensions the user allows? Only then may it win or seed.
  [[nodiscard]] bool is_within_dims(const std::vector<plan::Choice>& choices) {
    if (nodes_.empty()) nodes_ = strategies::analyze(model_);
    for (auto id : model_.ids()) {
      const auto& node = nodes_[id.index()];
      for (auto use : choices[id.index()].node.uses) {
        if (use.is_factor() && !is_allowed(node, use.factor(), options_.dims)) return false;
      }
    }
    return true;
  }

  // --- Layouts ----------------------------------------------------------------------------------

  void search_layouts() {
    if (contest_.is_over()) return;
    CostModel costs(machine_, digits_, options_.optimizer, options_.precision);
    LayoutNetwork network(model_, digits_, costs, options_.dims, options_.states_per_node, seeds_);
    // Communication that nothing overlaps adds to the operators' compute, and so do updates, but
    // those two may overlap each other.
    const auto solutions = solve(network, {{.update = 0, .async = 0},
                                           {.blocking = 0, .async = 0},
                                           {.async = 0.0},
                                           {.async = 0.5},
                                           {.async = 1.0}});
    auto& result = contest_.result();
    const bool exact = std::ranges::all_of(solutions, &LayoutNetwork::Solution::exact);
    if (!exact && !contest_.is_over()) result.stop_reason = "beam";
    bool fits = false;
    for (const auto& solution : solutions) fits = fits_in_memory(solution) || fits;
    // Of a large network what saves memory by strategy is enough: each price costs a simulation.
    const bool has_plan = is_large() && result.best;
    if (!fits && !has_plan) raise_memory_price(network);
    // The bound is that of weights stored as they are used; a baseline may store them in parts,
    // and update less on every device.
    const Seconds bound{std::max(solutions[0].cost, solutions[1].cost)};
    const bool holds = !result.best || result.best->simulation.iteration >= bound;
    if (exact && holds && machine_.groups.empty()) result.lower_bound = bound;
  }

  std::vector<LayoutNetwork::Solution> solve(const LayoutNetwork& network,
                                             const std::vector<Prices>& prices) {
    std::vector<LayoutNetwork::Solution> out(prices.size());
    parallel_for(prices.size(), options_.threads,
                 [&](std::size_t i) { out[i] = network.solve(prices[i]); });
    for (const auto& solution : out) contest_.result().products += solution.products;
    return out;
  }

  // Costs the solution, once; false also when the search is over before.
  bool fits_in_memory(const LayoutNetwork::Solution& solution) {
    const auto same = std::ranges::find(solved_, solution.choices, &Solved::choices);
    if (same != solved_.end()) return same->fits;
    const auto costed = contest_.enter({{"search", solution.choices}})[0];
    solved_.push_back({solution.choices, costed && costed->feasible});
    return solved_.back().fits;
  }

  // Doubles the price of a byte until the solution fits, then halves the gap a few times: the
  // cheapest price that fits gives up the least time.
  void raise_memory_price(LayoutNetwork& network) {
    network.allow_saving();
    const auto& result = contest_.result();
    const auto least = std::ranges::min(result.limits);
    const double scale = result.smallest.simulation.iteration / Seconds{1} / least.value;
    const auto fits_at = [&](double per_byte) {
      return fits_in_memory(solve(network, {{.async = 0.5, .per_byte = per_byte}})[0]);
    };
    double low = 0;
    double high = scale / 64;
    constexpr int kDoublings = 24;
    constexpr int kHalvings = 6;
    for (int doublings = 0; !fits_at(high); ++doublings) {
      if (doublings == kDoublings || contest_.is_over()) return;
      low = high;
      high *= 2;
    }
    for (int i = 0; i < kHalvings && !contest_.is_over(); ++i) {
      const double middle = (low + high) / 2;
      (fits_at(middle) ? high : low) = middle;
    }
  }

  struct Solved {
    std::vector<plan::Choice> choices;
    bool fits;
  };

  const graph::Graph& model_;
  const machine::Machine& machine_;
  const Options& options_;
  machine::Digits digits_;
  Contest contest_;
  std::vector<strategies::AnalyzedNode> nodes_;  // when they are needed
  std::vector<std::vector<plan::Choice>> seeds_;
  std::vector<Solved> solved_;
};

}  // namespace

Result search(const graph::Graph& model, const machine::Machine& machine, const Options& options) {
  return Search(model, machine, options).run();
}

}  // namespace tandem::search
