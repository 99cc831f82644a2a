#include "search/strategy_search.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/error.h"
#include "machine/submachine.h"
#include "search/baselines.h"
#include "search/grid/graph_grid_model.h"
#include "search/grid/grid.h"
#include "search/limits.h"
#include "search/neighbours/rank_settings.h"
#include "search/neighbours/setting_changes.h"
#include "search/neighbours/sharding_search.h"
#include "search/neighbours/step_layouts.h"
#include "search/rewritten_strategies.h"
#include "strategies/setting_groups.h"

namespace tandem::search {

using strategies::Setting;
using strategies::Strategy;

StrategySearch::StrategySearch(CandidatePool& pool, bool may_win)
    : pool_(pool),
      options_(pool.options()),
      problem_(pool.model(), pool.digits()),
      may_win_(may_win) {}

void StrategySearch::cost_baselines() {
  auto settings = list_baseline_settings(problem_, options_.semantics);
  // Without sequence parallelism Megatron is still a baseline.
  if (!options_.dims.sequence) std::erase_if(settings, [](const auto& s) { return s.sp; });
  const auto [chosen, known] = choose_baseline_settings(settings);
  const auto made = make_strategies(chosen, problem_);
  if (!made.empty()) cost_distinct(made, known);
}

std::vector<Setting> StrategySearch::list_best_settings(bool with_shardings) const {
  auto sorted = tried_;
  if (with_shardings) sorted.insert(sorted.end(), sharded_.begin(), sharded_.end());
  std::ranges::stable_sort(sorted, is_better);
  std::vector<Setting> out;
  out.reserve(sorted.size());
  for (auto& tried : sorted) out.push_back(*std::move(tried.setting));
  return out;
}

// Chooses the settings of each family that are fastest by estimate, and those without an estimate.
std::pair<std::vector<Setting>, std::vector<Evaluated>> StrategySearch::choose_baseline_settings(
    const std::vector<Setting>& settings) {
  if (!can_estimate()) return {settings, {}};
  std::vector<Setting> out;
  std::vector<Evaluated> known;
  for (auto from = settings.begin(); from != settings.end();) {
    const auto to =
        std::find_if(from, settings.end(), [&](const auto& s) { return s.family != from->family; });
    const auto estimated = estimate({from, to});
    for (const auto& setting : std::vector<Setting>(from, to)) {
      if (std::ranges::find(estimated, setting, &Evaluated::setting) == estimated.end()) {
        out.push_back(setting);
      }
    }
    const auto most = pool_.is_large() ? 1 : limits::kPerFamily;
    std::ranges::move(choose_promising(estimated, most), std::back_inserter(out));
    known.insert(known.end(), estimated.begin(), estimated.end());
    from = to;
  }
  return {std::move(out), std::move(known)};
}

// Evaluates settings with equal choices only once. For a large network a close estimate replaces
// the slow simulation.
void StrategySearch::cost_distinct(const std::vector<Strategy>& strategies,
                                   const std::vector<Evaluated>& known) {
  const auto estimate_of = [&](const Setting& setting) -> const Evaluated* {
    const auto at = std::ranges::find(known, setting, &Evaluated::setting);
    return pool_.is_large() && at != known.end() && !at->is_rough() ? &*at : nullptr;
  };
  std::vector<Candidate> distinct;
  std::vector<std::size_t> which;
  for (const auto& s : strategies) {
    const auto same = std::ranges::find(distinct, s.choices, &Candidate::choices);
    which.push_back(static_cast<std::size_t>(same - distinct.begin()));
    if (same != distinct.end()) continue;
    distinct.push_back(make_candidate(s, may_win(s.choices)));
  }
  std::vector<Candidate> simulated;
  for (const auto& candidate : distinct) {
    if (estimate_of(*candidate.setting) == nullptr) simulated.push_back(candidate);
  }
  auto outcomes = pool_.enter(simulated);
  std::vector<std::optional<Evaluated>> costed;
  auto next = outcomes.begin();
  for (const auto& candidate : distinct) {
    if (const auto* estimate = estimate_of(*candidate.setting)) {
      costed.emplace_back(*estimate);
    } else {
      costed.push_back(std::move(*next++));
    }
  }
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    if (!costed[which[i]]) continue;
    if (pool_.is_within_dims(problem_, strategies[i].choices)) {
      tried_.push_back(summarize(*costed[which[i]]));
      tried_.back().setting = strategies[i].setting;
    }
    add_baseline(strategies[i], *costed[which[i]]);
  }
  choose_initial_choices(std::move(distinct), costed);
}

// Keeps the best strategy of each family.
void StrategySearch::add_baseline(const Strategy& strategy, Evaluated costed) {
  costed.name = strategy.name;
  costed.family = name(strategy.setting.family);
  auto& baselines = pool_.result().baselines;
  if (baselines.empty() || baselines.back().family != costed.family) {
    baselines.push_back(std::move(costed));
  } else if (is_better(costed, baselines.back())) {
    baselines.back() = std::move(costed);
  }
}

void StrategySearch::choose_initial_choices(std::vector<Candidate> candidates,
                                            const std::vector<std::optional<Evaluated>>& costed) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (costed[i] && candidates[i].may_win) order.push_back(i);
  }
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return is_better(*costed[a], *costed[b]); });
  std::map<std::string, std::size_t> taken;
  for (auto i : order) {
    const auto family = candidates[i].name.substr(0, candidates[i].name.find(':'));
    if (taken[family]++ < limits::kPerFamily)
      initial_choices_.push_back(std::move(candidates[i].choices));
  }
}

bool StrategySearch::is_allowed(const Setting& setting) const {
  return (!setting.sp || options_.dims.sequence) && (setting.pp == 1 || options_.dims.pipeline);
}

// Returns whether the smallest strategies decide if anything fits.
bool StrategySearch::is_decided_by_smallest() {
  return pool_.is_large() || asks_only_if_strategy_fits() || are_far_too_large();
}

// Returns whether the question is only if a plain strategy fits.
bool StrategySearch::asks_only_if_strategy_fits() const {
  return options_.until.first_fit && !options_.layouts;
}

// Returns whether the estimate is enough to decide if it fits. The settings that need least memory
// have many micro-batches, and simulating a hundred layers with them takes seconds.
bool StrategySearch::is_decided_by_estimate(const Evaluated& estimated) {
  if (!is_decided_by_smallest()) return false;
  const auto unsure = limits::kUnsureMemory * std::ranges::max(pool_.result().limits);
  return estimated.over > unsure || (options_.until.first_fit && estimated.over < -1 * unsure);
}

bool StrategySearch::are_far_too_large() {
  const bool are_all_allowed = options_.dims == Dims{};
  if (!are_all_allowed || !is_synchronous()) return false;
  bool is_any = false;
  for (const auto& e : get_estimated_grid()) {
    if (!is_far_too_large(e.over)) return false;
    is_any = true;
  }
  return is_any;
}

bool StrategySearch::cost_smallest() {
  if (!is_synchronous()) return false;
  if (!can_estimate()) {
    if (!asks_only_if_strategy_fits()) return false;
    cost_baselines();
    simulate_smallest();
    return true;
  }
  const auto estimated = estimate_smallest();
  const auto& result = pool_.result();
  const std::size_t before = result.candidates;
  for (const auto& e : estimated) {
    const auto made = make_strategies({*e.setting}, problem_);
    if (made.empty() || !may_win(made[0].choices)) continue;
    const auto name = "search:" + made[0].name;
    if (is_decided_by_estimate(e)) {
      pool_.enter_estimate(make_evaluated(name, e.simulation, result.limits));
      return true;
    }
    auto candidate = make_candidate(made[0]);
    candidate.name = name;
    pool_.enter({std::move(candidate)});
    if (result.best) return true;
    // In other networks, a strategy without an estimate may need much less.
    const bool is_hopeless = !pool_.may_fit() || is_far_too_large(result.smallest.over);
    if (pool_.is_large() && is_hopeless) return true;
    if (result.candidates - before == limits::kSmallest) break;
  }
  return is_decided_by_smallest() && result.candidates > before;
}

// Evaluates strategies that are too many to simulate all.
void StrategySearch::cost_grid() {
  if (pool_.is_over()) return;
  if (!get_estimated_grid().empty()) {
    found_ = cost_estimated(*grid_);
  } else {
    if (is_synchronous()) cost_shardings();
    if (options_.grid) simulate_grid();
    found_ = simulated_grid_;
  }
  if (!is_synchronous()) {
    if (pool_.result().candidates == 0) {
      throw UserError("search", problem_.model.name(),
                      "has no pipeline on this machine whose updates can be delayed",
                      "omit --stale-weights");
    }
    fit_baselines(pool_, problem_, evaluated_grid(), {},
                  [this](const auto& choices) { return may_win(choices); });
    return;
  }
  tried_.insert(tried_.end(), found_.begin(), found_.end());
  Try estimate_some;
  if (can_estimate() && pool_.has_equal_devices()) {
    estimate_some = [this](const auto& settings) { return estimate(settings); };
  }
  fit_baselines(pool_, problem_, evaluated_grid(), estimate_some,
                [this](const auto& choices) { return may_win(choices); });
}

// Simulates the shardings of a network without estimates. Many of them differ little.
void StrategySearch::cost_shardings() {
  if (pool_.is_large() || !pool_.may_fit()) return;
  sharded_ =
      enter_shardings(pool_, problem_, [&](const auto& choices) { return may_win(choices); });
}

std::vector<Evaluated> StrategySearch::cost_estimated(const std::vector<Evaluated>& estimated) {
  std::vector<Strategy> strategies;
  std::vector<Evaluated> found;
  for (auto& strategy : make_strategies(choose_settings_to_simulate(estimated), problem_)) {
    if (!pool_.is_within_dims(problem_, strategy.choices)) continue;
    found.push_back(*std::ranges::find(estimated, strategy.setting, &Evaluated::setting));
    strategies.push_back(std::move(strategy));
  }
  simulate_the_best(strategies, found);
  return found;
}

// Returns the settings to simulate.
std::vector<Setting> StrategySearch::choose_settings_to_simulate(
    const std::vector<Evaluated>& estimated) const {
  return choose_promising_of_each_shape(
      estimated, pool_.is_large() ? limits::kLargeSimulated : limits::kSimulated);
}

// Returns whether simulating `tried` would only confirm the estimates. If the smallest is far too
// large, they already say that nothing fits.
bool StrategySearch::is_clearly_worse(const Evaluated& tried, const Evaluated& best) const {
  if (tried.feasible) {
    const bool is_rough = tried.is_rough() || best.is_rough();
    // Simulating a large network takes too long for such small differences.
    if (pool_.is_large() && !is_rough) return tried.time() >= best.time();
    return tried.time() > limits::kUncertain * best.time();
  }
  if (best.feasible) return true;
  return is_far_too_large(best.over) && tried.over > best.over;
}

bool StrategySearch::is_far_too_large(Bytes over) const {
  const auto part = pool_.is_large() ? limits::kFarTooLarge : limits::kTwiceTooLarge;
  return over > part * std::ranges::max(pool_.result().limits);
}

// Simulates strategies that may still be the fastest until none is left. On entry `found` holds the
// estimate of each strategy; on return, its simulation if there was one.
void StrategySearch::simulate_the_best(const std::vector<Strategy>& strategies,
                                       std::vector<Evaluated>& found) {
  const std::size_t fewest = pool_.is_large() ? 1 : 2;
  std::vector<bool> is_simulated(strategies.size());
  for (std::size_t simulated = 0; simulated < strategies.size() && !pool_.is_over();) {
    const auto best = *std::ranges::min_element(found, is_better);
    std::vector<Candidate> candidates;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      const bool is_slower = is_clearly_worse(found[i], best);
      if (is_simulated[i] || (is_slower && simulated + which.size() >= fewest)) continue;
      const auto& strategy = strategies[i];
      candidates.push_back(make_candidate(strategy, may_win_));
      which.push_back(i);
      is_simulated[i] = true;
    }
    if (which.empty()) return;
    simulated += which.size();
    const auto costed = pool_.enter(candidates);
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (costed[i]) found[which[i]] = summarize(*costed[i]);
    }
  }
}

void StrategySearch::mix_by_rank() {
  if (!can_estimate()) return;
  mix_settings_by_rank(
      pool_, problem_, evaluated_grid(),
      [this](const auto& settings) { return estimate(settings); },
      [this](const auto& choices) { return may_win(choices); });
}

const std::vector<Evaluated>& StrategySearch::get_estimated_grid() {
  if (!grid_) grid_ = estimate_grid();
  return *grid_;
}

// Returns estimates of grid strategies, those that need the least memory first.
std::vector<Evaluated> StrategySearch::estimate_smallest() {
  if (!can_estimate()) return {};
  const auto on = make_case();
  FoldedGridModel model(on, get_estimates(), nullptr);
  auto options = make_grid_options(kNever);
  options.smallest = true;
  auto out = evaluate_grid(on, model, options).evaluated;
  pool_.result().estimated += out.size();
  std::ranges::stable_sort(out, {}, &Evaluated::over);
  return out;
}

GridOptions StrategySearch::make_grid_options(double beat) {
  GridOptions out{.sequence = options_.dims.sequence,
                  .pipeline = options_.dims.pipeline,
                  .stale = !is_synchronous(),
                  .beat = beat};
  if (options_.dims != Dims{}) {
    out.allowed = [this](const Setting& setting) {
      const auto made = make_pass(setting, problem_);
      const auto* choices = std::get_if<strategies::Choices>(&made);
      return choices != nullptr && pool_.is_within_dims(problem_, *choices);
    };
  }
  out.stop = [this] { return pool_.is_over(); };
  return out;
}

// Returns an empty vector if the network cannot be estimated.
std::vector<Evaluated> StrategySearch::estimate_grid(double beat) {
  if (!can_estimate()) return {};
  const auto on = make_case();
  FoldedGridModel model(on, get_estimates(), options_.passes.get());
  const bool is_first = beat == kNever;
  if (const auto& best = pool_.result().best) {
    beat = std::min(beat, limits::kEstimateMargin * best->simulation.iteration.value);
  }
  auto options = make_grid_options(beat);
  options.each_family = is_first;
  auto [out, others, device_seconds] = evaluate_grid(on, model, options);
  others_ = others;
  pool_.result().estimated += out.size();
  // Devices of a mixed machine compute at different rates.
  if (pool_.has_equal_devices()) pool_.result().device_seconds = device_seconds;
  if (out.empty()) return {};
  std::ranges::move(try_shardings(problem_, limits::kWholeShardings,
                                  [&](const auto& some) { return estimate(some); }),
                    std::back_inserter(out));
  return out;
}

// Simulates grid strategies of a network without estimates that may be faster than all so far. If
// nothing fits yet, those that need least memory come first. If these are far too large, nothing
// fits.
void StrategySearch::simulate_grid(double beat) {
  const bool has_batch = strategies::find_batch_size(problem_).has_value();
  if (!has_batch || (!pool_.may_fit() && is_synchronous())) return;
  if (is_synchronous()) simulate_smallest();
  const auto& result = pool_.result();
  if (is_synchronous() && !result.best && is_far_too_large(result.smallest.over)) return;
  auto grid = make_grid_options(beat);
  grid.near = 1;
  grid.patience = limits::kGridPatience;
  const auto found = simulate_grid(std::move(grid));
  others_ = found.others;
  // Devices of a mixed machine compute at different rates.
  if (pool_.has_equal_devices()) pool_.result().device_seconds = found.device_seconds;
}

// Simulates the grid strategies that need the least memory, unless something fits already.
void StrategySearch::simulate_smallest() {
  if (pool_.result().best || pool_.is_over()) return;
  auto grid = make_grid_options(kNever);
  grid.smallest = true;
  (void)simulate_grid(std::move(grid));
}

// Simulates grid strategies that were not simulated before, and adds them to `simulated_grid_`.
GridResult StrategySearch::simulate_grid(GridOptions grid) {
  const auto batch = strategies::find_batch_size(problem_);
  if (!batch) return {};
  const Case on{.values = {},
                .problem = &problem_,
                .machine = &pool_.machine(),
                .batch = *batch,
                .optimizer = options_.optimizer,
                .precision = [this](auto) { return options_.precision; },
                .limits = pool_.result().limits,
                .network = options_.network ? options_.network->model : nullptr};
  grid.known = tried_;
  grid.known.insert(grid.known.end(), simulated_grid_.begin(), simulated_grid_.end());
  GraphGridModel model(pool_, problem_, *batch,
                       [this](const auto& choices) { return may_win(choices); });
  auto out = evaluate_grid(on, model, grid);
  simulated_grid_.insert(simulated_grid_.end(), out.evaluated.begin(), out.evaluated.end());
  return out;
}

std::optional<StrategySearch::QuickResult> StrategySearch::find_fastest_plain(double beat) {
  std::optional<QuickResult> best;
  const auto estimated = estimate_grid(beat);
  for (const auto& e : estimated) {
    const auto time = e.time().value;
    if (e.feasible && time < (best ? best->time : beat)) best = {time, e.setting};
  }
  if (!estimated.empty() || (can_estimate() && has_equal_layers(options_))) return best;
  cost_baselines();
  cost_shardings();
  simulate_grid(beat);
  const auto& found = pool_.result().best;
  if (found && found->time().value < beat) best = {found->time().value};
  return best;
}

// Gives the best grid strategies layouts of their own inside their steps: those that are fastest
// once their time is multiplied by what layouts save of their costs.
//   tp=2 3.1 s x 0.95, tp=4 3.2 s x 0.82: tp=4 comes first
void StrategySearch::lay_out_steps() {
  struct PricedShape {
    bool feasible;
    double time;  // predicted, with layouts of its own
    const Setting* setting;
  };
  const auto shapes = list_best_of_each_shape();
  std::vector<PricedShape> priced;
  for (const auto& t : shapes) {
    if (pool_.is_over()) return;
    const auto ratio = compute_layout_cost_ratio(*t.setting);
    if (ratio > 1 - limits::kLayoutGain) continue;
    priced.push_back({t.feasible, ratio.value_or(1) * t.time().value, &*t.setting});
  }
  std::ranges::stable_sort(priced, {},
                           [](const PricedShape& p) { return std::pair(!p.feasible, p.time); });
  const auto most = pool_.is_large() ? limits::kLargeLaidOut : limits::kLaidOut;
  priced.resize(std::min(priced.size(), most));
  for (const auto& p : priced) {
    if (pool_.is_over()) return;
    lay_out_step(*p.setting);
  }
}

void StrategySearch::change_rewritten_setting() {
  if (pool_.is_large() || !can_estimate()) return;
  for (int round = 0; round < limits::kChangeRounds && !pool_.is_over(); ++round) {
    const auto best = pool_.best_candidate();
    if (!best || !best->setting || !best->rewritten || best->is_in_part) return;
    const auto changes = list_changes(*best->setting, pool_.result().best->time());
    enter_rewritten_strategies(pool_, {best->rewritten->graph, pool_.digits()}, best->rewritten,
                               changes, changes.size());
    if (pool_.best_candidate()->setting == best->setting) return;
  }
}

// Returns the settings that differ from `setting` in one choice. Leaves out those that by their
// estimate do not fit or take more than kOtherShapeSlower times `time`.
std::vector<Setting> StrategySearch::list_changes(const Setting& setting, Seconds time) {
  auto out = list_single_changes(setting, problem_, options_.network->batch);
  std::erase_if(out, [&](const Setting& changed) { return !is_allowed(changed); });
  for (const auto& e : estimate(out)) {
    if (!e.feasible || e.time() > limits::kOtherShapeSlower * time) std::erase(out, *e.setting);
  }
  return out;
}

// Returns the best grid strategies without those of which a better one has the same shape and fits,
// or recomputes the same.
std::vector<Evaluated> StrategySearch::list_best_of_each_shape() const {
  auto tried = found_;
  std::ranges::stable_sort(tried, is_better);
  std::vector<Evaluated> out;
  for (auto& t : tried) {
    const auto is_alike = [&](const Evaluated& better) {
      return have_equal_shapes(*better.setting, *t.setting) &&
             (better.feasible || better.setting->recompute == t.setting->recompute);
    };
    if (std::ranges::none_of(out, is_alike)) out.push_back(std::move(t));
  }
  if (pool_.is_large()) out.resize(std::min(out.size(), limits::kLargeLaidOut));
  return out;
}

// Calls `use` with the cost model of each kind of device, as if all were of that kind, since most
// stages have only one kind. Equal devices share the pool's costs.
void StrategySearch::for_each_device_kind(const std::function<void(predict::CostModel&)>& use) {
  if (pool_.has_equal_devices()) {
    use(pool_.costs());
    return;
  }
  if (kinds_.empty()) {
    kinds_ = machine::split_by_device_kind(pool_.machine());
    for (const auto& machine : kinds_) {
      kind_costs_.emplace_back(machine, pool_.digits(), options_.optimizer, options_.precision);
    }
  }
  for (auto& costs : kind_costs_) use(costs);
}

std::optional<double> StrategySearch::compute_layout_cost_ratio(const Setting& setting) {
  std::optional<double> out;
  for_each_device_kind([&](auto& costs) {
    const auto ratio = search::compute_layout_cost_ratio(setting, problem_, costs, options_);
    if (ratio) out = std::min(out.value_or(1), *ratio);
  });
  return out;
}

void StrategySearch::lay_out_step(const Setting& setting) {
  for_each_device_kind([&](auto& costs) {
    pool_.enter(
        search::lay_out_step(setting, problem_, costs, options_, pool_.result().computed_tables));
  });
}

bool StrategySearch::can_estimate() const { return options_.network && is_synchronous(); }

std::vector<Evaluated> StrategySearch::estimate(const std::vector<Setting>& settings) {
  auto out = estimate_all(get_estimates(), settings);
  pool_.result().estimated += settings.size();
  return out;
}

Estimates& StrategySearch::get_estimates() {
  if (!estimates_) estimates_.emplace(make_case());
  return *estimates_;
}

Case StrategySearch::make_case() const {
  return {.values = {},
          .problem = &problem_,
          .machine = &pool_.machine(),
          .batch = options_.network->batch,
          .optimizer = options_.optimizer,
          .precision = [this](auto) { return options_.precision; },
          .limits = pool_.result().limits,
          .network = options_.network->model,
          .dtype = options_.network->dtype};
}

bool StrategySearch::may_win(const std::vector<plan::Choice>& choices) const {
  return may_win_ && pool_.is_within_dims(problem_, choices);
}

}  // namespace tandem::search
