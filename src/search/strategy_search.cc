#include "search/strategy_search.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/error.h"
#include "machine/fewer.h"
#include "search/baselines.h"
#include "search/by_memory.h"
#include "search/grid/graph_grid_model.h"
#include "search/grid/grid.h"
#include "search/neighbours/partial_saving.h"
#include "search/neighbours/sharing_search.h"
#include "search/neighbours/step_layouts.h"
#include "strategies/wide_grid.h"

namespace tandem::search {

using strategies::Setting;
using strategies::Strategy;

namespace {

// Samples of the batch; nothing where no operator has any.
std::optional<std::int64_t> batch_of(const strategies::Problem& problem) {
  for (const auto& node : problem.nodes) {
    if (const auto batch = node.batch()) return node.signature.map.factors[*batch].size;
  }
  return std::nullopt;
}

}  // namespace

StrategySearch::StrategySearch(Contest& contest, bool may_win)
    : contest_(contest),
      options_(contest.options()),
      problem_(contest.model(), contest.digits()),
      may_win_(may_win) {}

void StrategySearch::cost_baselines() {
  auto settings = settings_for(problem_, options_.semantics);
  // Megatron is one without it, too.
  if (!options_.dims.sequence) std::erase_if(settings, [](const auto& s) { return s.sp; });
  const auto known = shortened(settings);
  settings.clear();
  for (const auto& e : known) settings.push_back(e.setting);
  const auto made = make_strategies(settings, problem_);
  if (!made.empty()) cost_distinct(made, known);
}

bool StrategySearch::Tried::is_better(const Tried& a, const Tried& b) {
  if (a.feasible != b.feasible) return a.feasible;
  return a.feasible ? a.iteration < b.iteration : a.over < b.over;
}

std::vector<Setting> StrategySearch::best(bool with_shardings) const {
  auto sorted = tried_;
  if (with_shardings) sorted.insert(sorted.end(), sharded_.begin(), sharded_.end());
  std::ranges::stable_sort(sorted, Tried::is_better);
  std::vector<Setting> out;
  out.reserve(sorted.size());
  for (auto& tried : sorted) out.push_back(std::move(tried.setting));
  return out;
}

// Of each family those that are the fastest by estimate, and those that have none.
std::vector<Estimated> StrategySearch::shortened(const std::vector<Setting>& settings) {
  std::vector<Estimated> out;
  if (!can_estimate()) {
    for (const auto& setting : settings) out.push_back({setting, std::nullopt});
    return out;
  }
  for (auto from = settings.begin(); from != settings.end();) {
    const auto to =
        std::find_if(from, settings.end(), [&](const auto& s) { return s.family != from->family; });
    const auto estimated = estimate({from, to});
    for (const auto& e : estimated) {
      if (!e.point) out.push_back(e);
    }
    const auto most = contest_.is_large() ? 1 : kPerFamily;
    for (const auto& setting : promising(estimated, most)) {
      out.push_back(*std::ranges::find(estimated, setting, &Estimated::setting));
    }
    from = to;
  }
  return out;
}

StrategySearch::Tried StrategySearch::tried(const Setting& setting, const Costed& costed) {
  return {setting, costed.simulation.iteration, costed.over, costed.feasible};
}

Point StrategySearch::point_of(const Tried& tried) {
  Point out{.over = tried.over, .feasible = tried.feasible};
  out.simulation.iteration = tried.iteration;
  return out;
}

StrategySearch::Tried StrategySearch::tried(const Estimated& known) {
  const auto& point = known.point.value();
  return {known.setting, point.simulation.iteration, point.over, point.feasible};
}

// Settings that come to the same choices are costed once. Simulating a large network takes long: a
// close estimate does.
void StrategySearch::cost_distinct(const std::vector<Strategy>& strategies,
                                   const std::vector<Estimated>& known) {
  const auto estimate_of = [&](const Setting& setting) -> const Point* {
    const auto at = std::ranges::find(known, setting, &Estimated::setting);
    const bool does = contest_.is_large() && at != known.end() && at->point && !at->point->is_rough;
    return does ? &*at->point : nullptr;
  };
  std::vector<Candidate> distinct;
  std::vector<std::size_t> which;
  for (const auto& s : strategies) {
    const auto same = std::ranges::find(distinct, s.choices, &Candidate::choices);
    which.push_back(static_cast<std::size_t>(same - distinct.begin()));
    if (same != distinct.end()) continue;
    distinct.push_back(candidate_of(s, may_win(s.choices)));
  }
  std::vector<Candidate> simulated;
  for (const auto& candidate : distinct) {
    if (estimate_of(*candidate.setting) == nullptr) simulated.push_back(candidate);
  }
  auto outcomes = contest_.enter(simulated);
  std::vector<std::optional<Costed>> costed;
  auto next = outcomes.begin();
  for (const auto& candidate : distinct) {
    if (const auto* point = estimate_of(*candidate.setting)) {
      costed.emplace_back(
          search::costed(candidate.name, point->simulation, contest_.result().limits));
    } else {
      costed.push_back(std::move(*next++));
    }
  }
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    if (!costed[which[i]]) continue;
    if (contest_.is_within_dims(problem_, strategies[i].choices)) {
      tried_.push_back(tried(strategies[i].setting, *costed[which[i]]));
    }
    add_baseline(strategies[i], *costed[which[i]]);
  }
  choose_seeds(std::move(distinct), costed);
}

// The best of a family stands for it.
void StrategySearch::add_baseline(const Strategy& strategy, Costed costed) {
  costed.name = strategy.name;
  costed.family = name(strategy.setting.family);
  auto& baselines = contest_.result().baselines;
  if (baselines.empty() || baselines.back().family != costed.family) {
    baselines.push_back(std::move(costed));
  } else if (is_better(costed, baselines.back())) {
    baselines.back() = std::move(costed);
  }
}

void StrategySearch::choose_seeds(std::vector<Candidate> candidates,
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

bool StrategySearch::is_allowed(const Setting& setting) const {
  return (!setting.sp || options_.dims.sequence) && (setting.pp == 1 || options_.dims.pipeline);
}

// Does the estimate answer whether it fits? Simulating a hundred layers of many micro-batches, as
// what needs least has, takes seconds.
bool StrategySearch::is_settled(const Point& estimated) const {
  if (!contest_.is_large()) return false;
  const auto unsure = kUnsure * std::ranges::max(contest_.result().limits);
  return estimated.over > unsure || (options_.until.first_fit && estimated.over < -1 * unsure);
}

bool StrategySearch::are_far_too_large() {
  const bool are_all_allowed = options_.dims == Dims{};
  if (!contest_.is_large() || !are_all_allowed || !is_synchronous()) {
    return false;
  }
  bool is_any = false;
  for (const auto& e : estimated_grid()) {
    if (!e.point) continue;
    if (!is_far_too_large(e.point->over)) return false;
    is_any = true;
  }
  return is_any;
}

bool StrategySearch::cost_smallest() {
  if (!is_synchronous()) return false;
  auto estimated = estimated_grid();
  std::erase_if(estimated, [](const auto& e) { return !e.point; });
  std::ranges::stable_sort(estimated, {}, [](const auto& e) { return e.point->over; });
  const auto& result = contest_.result();
  const std::size_t before = result.candidates;
  for (const auto& e : estimated) {
    const auto made = make_strategies({e.setting}, problem_);
    if (made.empty() || !may_win(made[0].choices)) continue;
    const auto name = "search:" + made[0].name;
    if (is_settled(*e.point)) {
      contest_.enter_estimated(costed(name, e.point->simulation, result.limits));
      return true;
    }
    auto candidate = candidate_of(made[0]);
    candidate.name = name;
    contest_.enter({std::move(candidate)});
    if (result.best) return true;
    // Of others, what has no estimate may need much less.
    const bool is_hopeless = !contest_.may_fit() || is_far_too_large(result.smallest.over);
    if (contest_.is_large() && is_hopeless) return true;
    if (result.candidates - before == kSmallest) break;
  }
  return contest_.is_large() && result.candidates > before;
}

// Strategies of which there are too many to simulate each.
void StrategySearch::cost_grid() {
  if (contest_.is_over()) return;
  auto known = estimated_grid();
  std::vector<Tried> found;
  if (!known.empty()) {
    found = cost_estimated(known);
  } else {
    if (is_synchronous()) cost_shardings();
    if (options_.grid) known = simulate_grid();
    for (const auto& e : known) {
      if (e.point) found.push_back(tried(e));
    }
  }
  if (!is_synchronous()) {
    if (contest_.result().candidates == 0) {
      throw UserError("search", problem_.model.name(),
                      "it has no pipeline here whose updates may be delayed",
                      "without --stale-weights");
    }
    fit_baselines(contest_, problem_, known, {},
                  [this](const auto& choices) { return may_win(choices); });
    return;
  }
  if (is_memory_scarce()) {
    const auto more = enter_by_memory(contest_, problem_, without_estimate(known),
                                      [&](const auto& choices) { return may_win(choices); });
    for (const auto& e : more) {
      if (e.point) found.push_back(tried(e));
    }
    known.insert(known.end(), more.begin(), more.end());
  }
  tried_.insert(tried_.end(), found.begin(), found.end());
  Try estimate_some;
  if (can_estimate() && contest_.are_equal_devices()) {
    estimate_some = [this](const auto& settings) { return estimate(settings); };
  }
  fit_baselines(contest_, problem_, known, estimate_some,
                [this](const auto& choices) { return may_win(choices); });
  if (!contest_.may_fit() || !may_win_) return;
  if (contest_.are_equal_devices()) save_in_part(known);
  lay_out_steps(std::move(found));
}

// Of a network that cannot be estimated the shardings alone, of which many differ in little.
void StrategySearch::cost_shardings() {
  if (contest_.is_large() || !contest_.may_fit()) return;
  const auto entered =
      enter_shardings(contest_, problem_, [&](const auto& choices) { return may_win(choices); });
  for (const auto& e : entered) {
    if (e.point) sharded_.push_back(tried(e));
  }
}

std::vector<StrategySearch::Tried> StrategySearch::cost_estimated(
    const std::vector<Estimated>& estimated) {
  std::vector<Strategy> strategies;
  std::vector<Tried> found;
  for (auto& strategy : make_strategies(chosen(estimated), problem_)) {
    if (!contest_.is_within_dims(problem_, strategy.choices)) continue;
    found.push_back(tried(*std::ranges::find(estimated, strategy.setting, &Estimated::setting)));
    strategies.push_back(std::move(strategy));
  }
  simulate_the_best(strategies, found);
  return found;
}

// Does nothing fit so far, or not what would be faster? Of a large network, whose estimates leave
// out little, the first.
bool StrategySearch::is_memory_scarce() {
  if (contest_.is_over() || !may_win_) return false;
  const auto& best = contest_.result().best;
  if (!best) return true;
  return !contest_.is_large() && std::ranges::any_of(tried_, [&](const Tried& t) {
    return !t.feasible && t.iteration < best->simulation.iteration;
  });
}

// The settings of `explore` that are neither estimated nor simulated yet.
std::vector<Setting> StrategySearch::without_estimate(const std::vector<Estimated>& known) const {
  std::vector<Setting> out;
  const auto add = [&](const std::vector<Setting>& settings) {
    for (const auto& setting : settings) {
      if (!is_allowed(setting) || std::ranges::find(out, setting) != out.end()) continue;
      const auto is_it = [&](const auto& other) { return other.setting == setting; };
      const auto at = std::ranges::find_if(known, is_it);
      if (at != known.end() && at->point) continue;
      if (std::ranges::none_of(tried_, is_it) && std::ranges::none_of(sharded_, is_it)) {
        out.push_back(setting);
      }
    }
  };
  add(grid_settings(problem_));
  add(strategies::settings_named("all", problem_));
  return out;
}

// What is to be simulated.
std::vector<Setting> StrategySearch::chosen(const std::vector<Estimated>& estimated) const {
  return promising_of_each_depth(estimated, contest_.is_large() ? kLargeSimulated : kSimulated);
}

// By estimates, would simulating `tried` only tell what they tell? Where what needs least is far
// too large, that nothing fits.
bool StrategySearch::is_no_match(const Tried& tried, const Tried& best) const {
  if (tried.feasible) return tried.iteration > kUncertain * best.iteration;
  if (best.feasible) return true;
  return is_far_too_large(best.over) && tried.over > best.over;
}

bool StrategySearch::is_far_too_large(Bytes over) const {
  return over > kFarTooLarge * std::ranges::max(contest_.result().limits);
}

// By strategy `found` is what it is estimated to come to. Those that may still be the fastest are
// simulated, until none is left; then it is what they came to.
void StrategySearch::simulate_the_best(const std::vector<Strategy>& strategies,
                                       std::vector<Tried>& found) {
  constexpr std::size_t kFewest = 2;
  std::vector<bool> is_simulated(strategies.size());
  for (std::size_t simulated = 0; simulated < strategies.size() && !contest_.is_over();) {
    const auto best = *std::ranges::min_element(found, Tried::is_better);
    std::vector<Candidate> candidates;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      const bool is_slower = is_no_match(found[i], best);
      if (is_simulated[i] || (is_slower && simulated + which.size() >= kFewest)) continue;
      const auto& strategy = strategies[i];
      candidates.push_back(candidate_of(strategy, may_win_));
      which.push_back(i);
      is_simulated[i] = true;
    }
    if (which.empty()) return;
    simulated += which.size();
    const auto costed = contest_.enter(candidates);
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (costed[i]) found[which[i]] = tried(strategies[which[i]].setting, *costed[i]);
    }
  }
}

namespace {

// One setting that is too large and one that fits, which differ in what is computed again.
struct Pair {
  const Estimated* faster;
  const Estimated* fits;
  double iteration;  // between the two, where it would just fit
};

std::vector<Pair> pairs_by_recomputation(const std::vector<Estimated>& estimated) {
  std::map<std::string, std::vector<const Estimated*>> alike;
  for (const auto& e : estimated) {
    if (!e.point) continue;
    auto setting = e.setting;
    setting.recompute = "none";
    alike[to_text(setting)].push_back(&e);
  }
  std::vector<Pair> out;
  for (const auto& [text, all] : alike) {
    for (const auto* a : all) {
      for (const auto* b : all) {
        const auto t = a->point->simulation.iteration.value;
        const auto longer = b->point->simulation.iteration.value - t;
        if (a->point->feasible || !b->point->feasible || longer <= 0) continue;
        const double share = a->point->over / (a->point->over - b->point->over);
        out.push_back({a, b, t + share * longer});
      }
    }
  }
  std::ranges::stable_sort(out, {}, &Pair::iteration);
  return out;
}

}  // namespace

// Where computing all of something again leaves memory unused: less of it.
void StrategySearch::save_in_part(const std::vector<Estimated>& estimated) {
  std::size_t taken = 0;
  for (const auto& pair : pairs_by_recomputation(estimated)) {
    const auto& best = contest_.result().best;
    if (taken == kInPart || contest_.is_over()) return;
    if (best && pair.iteration > kWorthIt * best->simulation.iteration.value) return;
    const auto made = make_strategies({pair.faster->setting, pair.fits->setting}, problem_);
    if (made.size() < 2 || !may_win(made[1].choices)) continue;
    if (contest_.passes(made[1].schedule) > kMostPasses) continue;
    ++taken;
    enter_between(contest_, problem_.model,
                  {"search:" + made[1].name + " in part",
                   {made[0].choices, pair.faster->point->over},
                   {made[1].choices, pair.fits->point->over},
                   made[1].schedule,
                   nullptr,
                   made[1].setting},
                  contest_.is_large() ? kLargeSharesTried : kSharesTried);
  }
}

const std::vector<Estimated>& StrategySearch::estimated_grid() {
  if (!grid_) grid_ = estimate_grid();
  return *grid_;
}

GridOptions StrategySearch::grid_options(double beat) {
  GridOptions out{.sequence = options_.dims.sequence,
                  .pipeline = options_.dims.pipeline,
                  .stale = !is_synchronous(),
                  .beat = beat};
  if (options_.dims != Dims{}) {
    out.allowed = [this](const Setting& setting) {
      const auto made = make_pass(setting, problem_);
      const auto* choices = std::get_if<strategies::Choices>(&made);
      return choices != nullptr && contest_.is_within_dims(problem_, *choices);
    };
  }
  out.stop = [this] { return contest_.is_over(); };
  return out;
}

// None where nothing can be estimated.
std::vector<Estimated> StrategySearch::estimate_grid(double beat, KnownPasses* known) {
  if (!can_estimate()) return {};
  const auto on = case_to_estimate();
  if (!estimates_) estimates_.emplace(on);
  FoldedGridModel model(on, *estimates_, known);
  const bool is_first = beat == kNever;
  // Estimates are nearer than this to what was simulated before.
  constexpr double kOff = 1.01;
  if (const auto& best = contest_.result().best) {
    beat = std::min(beat, kOff * best->simulation.iteration.value);
  }
  auto options = grid_options(beat);
  options.each_family = is_first;
  auto [out, others, device_seconds] = evaluate_grid(on, model, options);
  others_ = others;
  contest_.result().estimated += out.size();
  // A mixed machine's devices compute at different rates.
  if (contest_.are_equal_devices()) contest_.result().device_seconds = device_seconds;
  if (out.empty()) return {};
  std::ranges::move(
      try_shardings(problem_, kWholeGrid, [&](const auto& some) { return estimate(some); }),
      std::back_inserter(out));
  return out;
}

// Of a network that cannot be estimated: what may be faster than all so far is simulated.
std::vector<Estimated> StrategySearch::simulate_grid(double beat) {
  const auto batch = batch_of(problem_);
  if (!batch || !contest_.may_fit()) return {};
  Case on{.values = {},
          .problem = &problem_,
          .machine = &contest_.machine(),
          .batch = *batch,
          .optimizer = options_.optimizer,
          .precision = [this](auto) { return options_.precision; },
          .limits = contest_.result().limits,
          .network = options_.network ? options_.network->model : nullptr};
  auto grid = grid_options(beat);
  grid.near = 1;
  constexpr double kPatience = 4e6;  // some seconds of one core
  grid.patience = kPatience;
  for (const auto& t : tried_) grid.known.push_back({t.setting, point_of(t)});
  GraphGridModel model(contest_, problem_, *batch,
                       [this](const auto& choices) { return may_win(choices); });
  auto [out, others, device_seconds] = evaluate_grid(on, model, grid);
  others_ = others;
  simulated_grid_ = out;
  // A mixed machine's devices compute at different rates.
  if (contest_.are_equal_devices()) contest_.result().device_seconds = device_seconds;
  return out;
}

std::optional<double> StrategySearch::fastest_plain(double beat, KnownPasses& known) {
  std::optional<double> best;
  const auto note = [&](const std::vector<Estimated>& evaluated) {
    for (const auto& e : evaluated) {
      if (!e.point || !e.point->feasible) continue;
      const auto time = e.point->simulation.iteration.value;
      if (time < best.value_or(beat)) best = time;
    }
  };
  const auto estimated = estimate_grid(beat, &known);
  note(estimated);
  if (!estimated.empty() || can_estimate()) return best;
  cost_baselines();
  cost_shardings();
  simulate_grid(beat);
  const auto& found = contest_.result().best;
  if (found && found->simulation.iteration.value < beat) best = found->simulation.iteration.value;
  return best;
}

// What the best of the grid come to with layouts of their own inside their steps. One of those
// that differ in little more than their number of micro-batches stands for them, and for those that
// compute again what it has memory for.
void StrategySearch::lay_out_steps(std::vector<Tried> tried) {
  std::ranges::stable_sort(tried, Tried::is_better);
  std::vector<Tried> taken;
  for (const auto& t : tried) {
    const auto is_alike = [&](const Tried& better) {
      return better.setting.pp == t.setting.pp &&
             (better.feasible || better.setting.recompute == t.setting.recompute);
    };
    if (std::ranges::any_of(taken, is_alike)) continue;
    taken.push_back(t);
    contest_.enter(
        lay_out_step(t.setting, problem_, contest_.costs(), options_, contest_.result().products));
    if (contest_.is_over()) return;
    if (taken.size() == (contest_.is_large() ? kLargeLaidOut : kLaidOut)) return;
  }
}

bool StrategySearch::can_estimate() const { return options_.network && is_synchronous(); }

std::vector<Estimated> StrategySearch::estimate(const std::vector<Setting>& settings) {
  if (!estimates_) {
    estimates_.emplace(case_to_estimate());
  }
  auto out = estimate_all(*estimates_, settings);
  contest_.result().estimated += out.size();
  return out;
}

Case StrategySearch::case_to_estimate() const {
  return {.values = {},
          .problem = &problem_,
          .machine = &contest_.machine(),
          .batch = options_.network->batch,
          .optimizer = options_.optimizer,
          .precision = [this](auto) { return options_.precision; },
          .limits = contest_.result().limits,
          .network = options_.network->model,
          .dtype = options_.network->dtype};
}

bool StrategySearch::may_win(const std::vector<plan::Choice>& choices) const {
  return may_win_ && contest_.is_within_dims(problem_, choices);
}

}  // namespace tandem::search
