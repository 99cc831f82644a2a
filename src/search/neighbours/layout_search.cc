#include "search/neighbours/layout_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <utility>

#include "base/parallel.h"
#include "search/bounds.h"
#include "search/limits.h"
#include "search/neighbours/partial_saving.h"

namespace tandem::search {

namespace {

constexpr Seconds kUnbounded{std::numeric_limits<double>::infinity()};

// Returns whether every operator runs on all devices. Other operators may run side by side, which
// cost tables do not see.
bool runs_on_all_devices(const std::vector<plan::Choice>& choices, const graph::Graph& graph,
                         const CandidatePool& pool) {
  return std::ranges::none_of(graph.ids(), [&](graph::NodeId id) {
    const std::span uses(choices[id.index()].node.uses.data(), pool.digits().count());
    return graph.node(id).op.role() == ops::Role::kCompute &&
           std::ranges::any_of(uses, &machine::DigitUse::is_idle);
  });
}

}  // namespace

void LayoutSearch::search(const strategies::Problem& problem,
                          const std::shared_ptr<const Rewritten>& rewritten,
                          const std::vector<std::vector<plan::Choice>>& seeds) {
  if (pool_.is_over()) return;
  auto network = make_network(problem.model, seeds);
  solved_.clear();
  rewritten_ = rewritten;
  // Exposed communication adds to compute, and so do updates, but these two may overlap each other.
  const auto solutions = solve(network, {{.update = 0, .async = 0},
                                         {.blocking = 0, .async = 0},
                                         {.async = 0.0},
                                         {.async = 0.5},
                                         {.async = 1.0}});
  const bool exact = std::ranges::all_of(solutions, &LayoutNetwork::Solution::exact);
  if (!exact && options_.finder.is_exact() && !pool_.is_over()) {
    pool_.result().stop_reason = StopReason::kBeam;
  }
  const bool is_bound = exact && pool_.machine().groups.empty();
  const auto& best = pool_.result().best;
  // Skip layouts that lose even if all overlappable communication is free. Sharded weights have
  // less to update, but no less to compute.
  const auto than = best ? std::min(best->simulation.iteration, options_.beat) : options_.beat;
  const bool may_win = !is_bound || Seconds{solutions[0].cost} < than;
  const bool fits = may_win && simulate(solutions, problem.model);
  is_bounded_ = is_bounded_ && is_bound;
  if (is_bound) {
    const bool updates = solutions[1].cost > solutions[0].cost;
    constexpr StreamWeights::Shares kComputeAlone{.forward = 1, .backward = 1};
    record_bound(
        problem, seeds,
        {Seconds{solutions[updates ? 1 : 0].cost},
         {.chain = kComputeAlone, .branches = kComputeAlone, .update = updates ? 1.0 : 0.0}});
  }
  if (may_win) save_memory(network, fits);
}

LayoutNetwork LayoutSearch::make_network(const graph::Graph& graph,
                                         const std::vector<std::vector<plan::Choice>>& seeds) {
  return {graph, pool_.digits(),    pool_.costs(), options_.dims, options_.states_per_node, seeds,
          {},    pool_.get_tables()};
}

void LayoutSearch::record_bound(const strategies::Problem& problem,
                                const std::vector<std::vector<plan::Choice>>& seeds,
                                const LayoutBound& bound) {
  auto fastest = kUnbounded;
  for (const auto& [candidate, evaluated] : solved_) {
    const auto time = evaluated.time();
    if (time == Seconds{} || !runs_on_all_devices(candidate.choices, problem.model, pool_))
      continue;
    fastest = std::min(fastest, time);
  }
  laid_out_.push_back({rewritten_, seeds, bound, fastest});
}

std::optional<Seconds> LayoutSearch::compute_bound(Seconds enough) {
  if (!is_bounded_ || laid_out_.empty()) return std::nullopt;
  std::ranges::stable_sort(laid_out_, {}, [](const LaidOut& l) { return l.bound.time; });
  StreamWeights weights;  // starts from those of the previous graph
  for (auto& [rewritten, initial_choices, bound, fastest] : laid_out_) {
    if (options_.grid && bound.time < enough && !pool_.is_over()) {
      const auto& graph = rewritten ? rewritten->graph : pool_.model();
      bound = raise_bound(bound, weights, make_network(graph, initial_choices), options_.finder,
                          enough, [&] { return pool_.is_over(); });
      weights = bound.weights;
    }
    check_bound(fastest, bound.time, "layouts");
    enough = std::min(enough, bound.time);
  }
  return std::ranges::min(laid_out_, {}, [](const LaidOut& l) { return l.bound.time; }).bound.time;
}

namespace {

// Returns the step time divided by the bytes of memory: one byte's share of the step, in seconds.
double compute_time_per_byte(const Evaluated& e) {
  const auto memory = e.simulation.memory;
  return memory > Bytes{} ? e.time() / Seconds{1} / memory.value : 0;
}

}  // namespace

// Returns whether the solution is slower than the best candidate even if all communication that may
// overlap does. Smaller networks are always simulated, since their layouts may lead to better ones.
bool LayoutSearch::is_too_slow(const LayoutNetwork::Solution& solution,
                               const graph::Graph& graph) const {
  const auto& best = pool_.result().best;
  return pool_.is_large() && best && pool_.has_equal_devices() &&
         Seconds{solution.least} >= best->simulation.iteration &&
         runs_on_all_devices(solution.choices, graph, pool_);
}

// Simulates the cheapest layouts that may win. Returns whether all of them fit.
bool LayoutSearch::simulate(const std::vector<LayoutNetwork::Solution>& solutions,
                            const graph::Graph& graph) {
  auto likely = solutions;
  std::erase_if(likely, [&](const auto& solution) { return is_too_slow(solution, graph); });
  if (likely.empty()) likely.push_back(solutions.back());
  return simulate_all(likely);
}

// Searches for solutions that save memory. `fits`: whether the previous solutions fit.
void LayoutSearch::save_memory(LayoutNetwork& network, bool fits) {
  network.allow_saving();
  if (!pool_.is_large()) {
    fits = simulate_all(solve(network, {{.async = 0.5}, {.async = 1.0}}));
    try_small_savings(network);
    try_prices_between(network);
  }
  if (!fits && !may_stop_saving()) raise_memory_price(network);
}

// Returns whether a large network needs no further search for memory: a strategy fits and does not
// take far longer than layouts that do not fit. Each further price costs a simulation.
bool LayoutSearch::may_stop_saving() {
  const auto& best = pool_.result().best;
  if (!pool_.is_large() || !best) return false;
  if (pool_.is_over()) return true;
  auto fastest = solved_[0].evaluated.time();
  for (const auto& solved : solved_) fastest = std::min(fastest, solved.evaluated.time());
  return best->simulation.iteration <= limits::kFarLonger * fastest;
}

// Tries layouts that regather weights or recompute activations at small cost. Both often overlap
// something else, which cost tables do not see. So these layouts are simulated even if memory is
// not scarce.
void LayoutSearch::try_small_savings(const LayoutNetwork& network) {
  const auto scale = compute_memory_scale();
  simulate_all(solve(network, {{.async = 0.25},
                               {.async = 0.5, .per_byte = scale / 64},
                               {.async = 0.5, .per_byte = scale / 32}}));
}

// Tries more prices of overlapping communication and of memory. The exposed share of communication
// differs between layouts, so layouts that are the cheapest only in a small range of prices may be
// the fastest. Skips graphs whose layouts would not be faster than the best plan if they exposed
// almost no communication.
void LayoutSearch::try_prices_between(const LayoutNetwork& network) {
  const auto& best = pool_.result().best;
  if (!best) return;
  const auto may_gain = [&](const EvaluatedCandidate& solved) {
    const auto& evaluated = solved.evaluated;
    const auto now = best->simulation.iteration;
    return evaluated.feasible && evaluated.time() <= limits::kNearBestLayouts * now &&
           evaluated.time() - evaluated.simulation.exposed_comm <= (1 - limits::kWaits) * now;
  };
  if (std::ranges::none_of(solved_, may_gain)) return;
  const auto scale = compute_memory_scale();
  for (const double async : {0.25, 0.375, 0.5, 0.75, 1.0}) {
    for (const double share : {0.0, 1.0 / 256, 1.0 / 64}) {
      if (pool_.is_over()) return;
      std::vector<predict::Prices> prices = {{.async = async, .per_byte = share * scale}};
      if (async < 1) prices.push_back({.async = async, .late = 1, .per_byte = share * scale});
      simulate_all(solve(network, prices));
    }
  }
}

// Returns one byte's share of the step. It does not depend on the machine's capacity, so that the
// same prices are tried with more memory.
double LayoutSearch::compute_memory_scale() const {
  return compute_time_per_byte(solved_.front().evaluated);
}

// Returns the smallest share of all solutions. The first solution ignores communication and may
// take far longer than others.
double LayoutSearch::compute_least_memory_scale() const {
  double least = compute_memory_scale();
  for (const auto& solved : solved_)
    least = std::min(least, compute_time_per_byte(solved.evaluated));
  return least;
}

std::vector<LayoutNetwork::Solution> LayoutSearch::solve(
    const LayoutNetwork& network, const std::vector<predict::Prices>& prices) {
  std::vector<LayoutNetwork::Solution> out(prices.size());
  parallel_for(prices.size(), options_.threads,
               [&](std::size_t i) { out[i] = network.solve(prices[i], options_.finder); });
  for (const auto& solution : out) pool_.result().computed_tables += solution.computed_tables;
  return out;
}

// Simulates the solution unless it was simulated before.
const EvaluatedCandidate& LayoutSearch::simulate_once(const LayoutNetwork::Solution& solution) {
  const auto same = std::ranges::find_if(solved_, [&](const EvaluatedCandidate& e) {
    return e.candidate.choices == solution.choices;
  });
  if (same != solved_.end()) return *same;
  Candidate candidate{"search", solution.choices, {}, true, rewritten_};
  const auto evaluated = pool_.enter({candidate})[0];
  constexpr Bytes kUnknown{std::numeric_limits<double>::infinity()};
  solved_.push_back(
      {std::move(candidate), evaluated ? summarize(*evaluated) : Evaluated{.over = kUnknown}});
  return solved_.back();
}

// Simulates all solutions, even after one that does not fit.
bool LayoutSearch::simulate_all(const std::vector<LayoutNetwork::Solution>& solutions) {
  bool all = true;
  for (const auto& solution : solutions) all = simulate_once(solution).evaluated.feasible && all;
  return all;
}

// Raises the price of a byte until the solution fits, then halves the gap a few times. The cheapest
// price that fits gives up the least time. A rewritten model starts at the model's price. At one
// price all equal layers make the same choice, so mixtures of two solutions save memory in some
// layers only.
//   prices 1 and 1.41 do not fit, 2 fits -> tries 1.71; that fits, too -> tries 1.56
void LayoutSearch::raise_memory_price(const LayoutNetwork& network) {
  std::optional<EvaluatedCandidate> faster;
  std::optional<EvaluatedCandidate> fits;
  const auto at_price = [&](double per_byte) {
    const auto& now = simulate_once(solve(network, {{.async = 0.5, .per_byte = per_byte}})[0]);
    (now.evaluated.feasible ? fits : faster) = now;
    return now;
  };
  const auto first = memory_price_ > 0
                         ? memory_price_
                         : std::min(compute_memory_scale() / 64, compute_least_memory_scale() / 4);
  auto gap = find_price_gap(first, at_price);
  if (!gap) return;
  for (int i = 0; i < limits::kHalvings && !pool_.is_over(); ++i) {
    const double middle = (gap->low + gap->high) / 2;
    (at_price(middle).evaluated.feasible ? gap->high : gap->low) = middle;
  }
  if (rewritten_ == nullptr) memory_price_ = gap->high;
  if (!faster || pool_.is_over()) return;
  enter_between(pool_, "search", *faster, *fits, limits::kMixedLayouts);
}

// Returns a gap between a price that does not fit and one that does, or nullopt. In the cost tables
// a more expensive byte always saves memory. In the simulation, resharding eventually needs more
// memory than it saves. So prices rise while the needed memory still changes and is not far above
// the least. If no price fits but the best one nearly does, a few prices next to it are tried, too.
std::optional<LayoutSearch::Gap> LayoutSearch::find_price_gap(
    double first, const std::function<EvaluatedCandidate(double)>& at_price) {
  const auto dear = limits::kDear * compute_least_memory_scale();
  double low = 0;
  auto price = first;
  auto best = first;
  Bytes least{std::numeric_limits<double>::infinity()};
  Bytes least_over{};
  Bytes before{};
  for (int rises = 0, beyond = 0; rises < limits::kRises; ++rises) {
    const auto now = at_price(price).evaluated;
    if (now.feasible) return Gap{low, price};
    const auto memory = now.simulation.memory;
    if (pool_.is_over()) return std::nullopt;
    if (memory < least) {
      least = memory;
      least_over = now.over;
      best = price;
      beyond = 0;
    } else if (++beyond >= limits::kBeyondLeast && memory > limits::kMoreMemory * least) {
      break;
    }
    if (price > dear && std::abs(memory / before - 1) < limits::kSameMemory) break;
    before = memory;
    low = price;
    price *= std::numbers::sqrt2;
  }
  if (least_over > limits::kNearlyFits * (least - least_over)) return std::nullopt;
  return try_prices_near(best, at_price);
}

// Tries a few prices next to `price`, which nearly fits. Returns the gap below the first one that
// fits, or nullopt if none does.
std::optional<LayoutSearch::Gap> LayoutSearch::try_prices_near(
    double price, const std::function<EvaluatedCandidate(double)>& at_price) {
  for (const int eighths : {-3, -2, -1, 1, 2, 3}) {
    const auto near = price * std::exp2(eighths / 8.0);
    if (at_price(near).evaluated.feasible) return Gap{price / std::numbers::sqrt2, near};
    if (pool_.is_over()) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tandem::search
