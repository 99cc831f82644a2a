#include "search/search.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>

#include "base/parallel.h"
#include "search/contest.h"
#include "search/grid_search.h"
#include "search/layout_network.h"
#include "search/rewritings.h"
#include "search/sharing_search.h"
#include "search/step_layouts.h"
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
  static constexpr std::size_t kLaidOut = 3;  // of these again
  static constexpr std::size_t kLargeLaidOut = 1;
  static constexpr std::size_t kRewritten = 4;  // strategies that a rewritten model is tried under
  static constexpr std::size_t kLargeRewritten = 1;
  static constexpr std::size_t kRankedUnder = 6;  // strategies whose layouts a ranking knows
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
    if (options_.algebra == Algebra::kSequential) rewrite_for_one_device();
    cost_baselines();
    cost_grid();
    if (options_.algebra == Algebra::kJoint) rewrite();
    if (options_.semantics == plan::Semantics::kSynchronous) {
      if (model_may_win_) search_model();
      for (const auto& rewritten : rewritings_) search_rewritten(rewritten);
    }
    keep_bound_if_true();
    auto& out = contest_.result();
    out.search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(out);
  }

 private:
  // --- Rewritings -------------------------------------------------------------------------------

  void rewrite_for_one_device() {
    add_rewritings({.keep = 1, .one_device = true});
    model_may_win_ = rewritings_.empty();
  }

  // What one device gains most by is among them, so that a plan is no worse than one that was
  // rewritten first and laid out then.
  void rewrite() {
    if (contest_.is_over()) return;
    sort_tried();
    RankingOptions ranking;
    for (const auto& tried : tried_) {
      if (tried.setting.pp == 1 && ranking.seeds.size() < kRankedUnder) {
        ranking.seeds.push_back(tried.setting);
      }
    }
    ranking.keep = is_large() ? 1 : 2;
    add_rewritings(ranking);
    if (!is_large()) add_rewritings({.keep = 1, .one_device = true});
  }

  void add_rewritings(const RankingOptions& options) {
    const auto ranked = rank_rewritings(model_, machine_, digits_, options_, options);
    contest_.result().rewritings += ranked.ranked;
    for (const auto& made : ranked.best) {
      const auto is_it = [&](const auto& other) {
        return other->graph.identity_hash() == made->graph.identity_hash();
      };
      if (std::ranges::none_of(rewritings_, is_it)) rewritings_.push_back(made);
    }
  }

  void sort_tried() {
    std::ranges::stable_sort(tried_, [](const Tried& a, const Tried& b) {
      if (a.feasible != b.feasible) return a.feasible;
      return a.feasible ? a.iteration < b.iteration : a.over < b.over;
    });
  }

  // Under the strategies that were best for the model, and in layouts of its own.
  void search_rewritten(const std::shared_ptr<const Rewritten>& rewritten) {
    if (contest_.is_over()) return;
    const strategies::Problem problem(rewritten->graph, digits_);
    sort_tried();
    std::vector<Candidate> candidates;
    for (const auto& tried : tried_) {
      if (candidates.size() == (is_large() ? kLargeRewritten : kRewritten)) break;
      auto made = make_strategy(tried.setting, problem);
      auto* strategy = std::get_if<Strategy>(&made);
      if (strategy == nullptr || !is_within_dims(problem, strategy->choices)) continue;
      candidates.push_back({"search:" + strategy->name, std::move(strategy->choices),
                            strategy->schedule, true, rewritten});
    }
    contest_.enter(candidates);
    std::vector<std::vector<plan::Choice>> seeds;
    for (auto& candidate : candidates) {
      if (candidate.schedule.micro_batches == 1 && candidate.schedule.stages == 1) {
        seeds.push_back(std::move(candidate.choices));
      }
    }
    search_layouts(problem, rewritten, seeds);
  }

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
    cost_baselines(problem, made);
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
  void cost_baselines(const strategies::Problem& problem, const std::vector<Strategy>& strategies) {
    std::vector<Candidate> distinct;
    std::vector<std::size_t> which;
    for (const auto& s : strategies) {
      const auto same = std::ranges::find(distinct, s.choices, &Candidate::choices);
      which.push_back(static_cast<std::size_t>(same - distinct.begin()));
      if (same != distinct.end()) continue;
      const bool may_win = model_may_win_ && is_within_dims(problem, s.choices);
      distinct.push_back({s.name, s.choices, s.schedule, may_win});
    }
    const auto costed = contest_.enter(distinct);
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      if (!costed[which[i]]) continue;
      if (is_within_dims(problem, strategies[i].choices)) {
        add_tried(strategies[i].setting, *costed[which[i]]);
      }
      add_baseline(strategies[i], *costed[which[i]]);
    }
    choose_seeds(std::move(distinct), costed);
  }

  void add_tried(const Setting& setting, const Costed& costed) {
    tried_.push_back({setting, costed.simulation.iteration, costed.over, costed.feasible});
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
      const auto may_win = [&](const auto& choices) {
        return model_may_win_ && is_within_dims(problem, choices);
      };
      if (!is_large()) enter_shardings(contest_, problem, may_win);
      return;
    }
    std::ranges::move(try_shardings(problem, kWholeGrid,
                                    [&](const auto& some) { return estimate(problem, some); }),
                      std::back_inserter(estimated));
    const auto more = varied(promising(estimated, kVaried), options_.network->batch);
    std::ranges::move(estimate(problem, more), std::back_inserter(estimated));
    std::vector<Candidate> candidates;
    std::vector<Setting> steps;
    for (const auto& setting : promising(estimated, is_large() ? kLargeSimulated : kSimulated)) {
      auto made = make_strategy(setting, problem);
      auto* strategy = std::get_if<Strategy>(&made);
      if (strategy == nullptr || !is_within_dims(problem, strategy->choices)) continue;
      candidates.push_back(
          {strategy->name, std::move(strategy->choices), strategy->schedule, model_may_win_});
      steps.push_back(setting);
    }
    const auto costed = contest_.enter(candidates);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (costed[i]) add_tried(steps[i], *costed[i]);
    }
    if (model_may_win_) lay_out_steps(problem, steps, costed);
  }

  // What the best of the grid come to with layouts of their own inside their steps. One of those
  // that differ in little more than their number of micro-batches stands for them.
  void lay_out_steps(const strategies::Problem& problem, const std::vector<Setting>& settings,
                     const std::vector<std::optional<Costed>>& costed) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < settings.size(); ++i) {
      if (costed[i]) order.push_back(i);
    }
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return is_better(*costed[a], *costed[b]); });
    std::vector<Setting> taken;
    for (auto i : order) {
      const auto is_alike = [&](const Setting& other) {
        return other.pp == settings[i].pp && other.recompute == settings[i].recompute;
      };
      if (std::ranges::any_of(taken, is_alike)) continue;
      taken.push_back(settings[i]);
      contest_.enter(
          lay_out_step(settings[i], problem, machine_, options_, contest_.result().products));
      if (contest_.is_over() || taken.size() == (is_large() ? kLargeLaidOut : kLaidOut)) return;
    }
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
  [[nodiscard]] bool is_within_dims(const strategies::Problem& problem,
                                    const std::vector<plan::Choice>& choices) const {
    for (auto id : problem.model.ids()) {
      const auto& node = problem.nodes[id.index()];
      for (auto use : choices[id.index()].node.uses) {
        if (use.is_factor() && !is_allowed(node, use.factor(), options_.dims)) return false;
      }
    }
    return true;
  }

  // --- Layouts ----------------------------------------------------------------------------------

  void search_model() { search_layouts(strategies::Problem(model_, digits_), nullptr, seeds_); }

  void search_layouts(const strategies::Problem& problem,
                      const std::shared_ptr<const Rewritten>& rewritten,
                      const std::vector<std::vector<plan::Choice>>& seeds) {
    if (contest_.is_over()) return;
    CostModel costs(machine_, digits_, options_.optimizer, options_.precision);
    LayoutNetwork network(problem.model, digits_, costs, options_.dims, options_.states_per_node,
                          seeds);
    solved_.clear();
    rewritten_ = rewritten;
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
    network.allow_saving();
    if (!is_large()) {
      for (const auto& solution : solve(network, {{.async = 0.5}, {.async = 1.0}})) {
        fits = fits_in_memory(solution) || fits;
      }
    }
    // Of a large network what saves memory by strategy is enough: each price costs a simulation.
    const bool has_plan = is_large() && result.best;
    if (!fits && !has_plan && rewritten == nullptr) raise_memory_price(network);
    if (!exact || !machine_.groups.empty()) {
      is_bounded_ = false;
      return;
    }
    const Seconds bound{std::max(solutions[0].cost, solutions[1].cost)};
    result.lower_bound = std::min(bound, result.lower_bound.value_or(bound));
  }

  // The bound is that of weights stored as they are used; a baseline may store them in parts, and
  // update less on every device.
  void keep_bound_if_true() {
    auto& result = contest_.result();
    const bool holds =
        !result.best || result.best->simulation.iteration >= result.lower_bound.value_or(Seconds{});
    if (!is_bounded_ || !holds) result.lower_bound.reset();
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
    const auto costed = contest_.enter({{"search", solution.choices, {}, true, rewritten_}})[0];
    solved_.push_back({solution.choices, costed && costed->feasible});
    return solved_.back().fits;
  }

  // Doubles the price of a byte until the solution fits, then halves the gap a few times: the
  // cheapest price that fits gives up the least time.
  void raise_memory_price(LayoutNetwork& network) {
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
  std::vector<std::shared_ptr<const Rewritten>> rewritings_;
  bool model_may_win_ = true;
  struct Tried {
    Setting setting;
    Seconds iteration;
    Bytes over;
    bool feasible = false;
  };
  std::vector<Tried> tried_;
  std::vector<std::vector<plan::Choice>> seeds_;
  std::shared_ptr<const Rewritten> rewritten_;  // what is being laid out; null: the model
  std::vector<Solved> solved_;
  bool is_bounded_ = true;
};

}  // namespace

Result search(const graph::Graph& model, const machine::Machine& machine, const Options& options) {
  return Search(model, machine, options).run();
}

}  // namespace tandem::search
