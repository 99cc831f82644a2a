#include "search/layout_search.h"

#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "search/partial_saving.h"

namespace tandem::search {

void LayoutSearch::search(const strategies::Problem& problem,
                          const std::shared_ptr<const Rewritten>& rewritten,
                          const std::vector<std::vector<plan::Choice>>& seeds) {
  if (contest_.is_over()) return;
  LayoutNetwork network(problem.model, contest_.digits(), contest_.costs(), options_.dims,
                        options_.states_per_node, seeds, {}, contest_.tables());
  solved_.clear();
  rewritten_ = rewritten;
  // Communication that nothing overlaps adds to the operators' compute, and so do updates, but
  // those two may overlap each other.
  const auto solutions = solve(network, {{.update = 0, .async = 0},
                                         {.blocking = 0, .async = 0},
                                         {.async = 0.0},
                                         {.async = 0.5},
                                         {.async = 1.0}});
  const bool exact = std::ranges::all_of(solutions, &LayoutNetwork::Solution::exact);
  if (!exact && options_.finder.is_exact() && !contest_.is_over()) {
    contest_.result().stop_reason = "beam";
  }
  const bool is_bound = exact && contest_.machine().groups.empty();
  const auto& best = contest_.result().best;
  // Even if all that may be hidden is: weights in parts have less to update, but no less to
  // compute.
  const bool may_win =
      !is_bound || !best || Seconds{solutions[0].cost} < best->simulation.iteration;
  if (may_win) simulate(network, problem.model, solutions);
  if (is_bound) {
    add_lower_bound(Seconds{std::max(solutions[0].cost, solutions[1].cost)});
  } else {
    is_bounded_ = false;
  }
}

// The solutions, and others that save memory.
void LayoutSearch::simulate(LayoutNetwork& network, const graph::Graph& graph,
                            const std::vector<LayoutNetwork::Solution>& solutions) {
  // The cheapest layouts, not just any that were found.
  bool fits = all_fit_in_memory(solutions);
  network.allow_saving();
  if (!contest_.is_large()) {
    fits = all_fit_in_memory(solve(network, {{.async = 0.5}, {.async = 1.0}}));
  }
  // Of a large network what saves memory by strategy is enough: each price costs a simulation.
  const bool has_plan = contest_.is_large() && contest_.result().best;
  if (!fits && !has_plan) raise_memory_price(network, graph);
}

void LayoutSearch::add_lower_bound(Seconds bound) {
  auto& known = contest_.result().lower_bound;
  known = std::min(bound, known.value_or(bound));
}

void LayoutSearch::keep_bound_if_true() {
  auto& result = contest_.result();
  const bool holds =
      !result.best || result.best->simulation.iteration >= result.lower_bound.value_or(Seconds{});
  if (!is_bounded_ || !holds) result.lower_bound.reset();
}

std::vector<LayoutNetwork::Solution> LayoutSearch::solve(const LayoutNetwork& network,
                                                         const std::vector<Prices>& prices) {
  std::vector<LayoutNetwork::Solution> out(prices.size());
  parallel_for(prices.size(), options_.threads,
               [&](std::size_t i) { out[i] = network.solve(prices[i], options_.finder); });
  for (const auto& solution : out) contest_.result().products += solution.products;
  return out;
}

// Costs the solution, once.
const LayoutSearch::Solved& LayoutSearch::costed(const LayoutNetwork::Solution& solution) {
  const auto same = std::ranges::find(solved_, solution.choices, &Solved::choices);
  if (same != solved_.end()) return *same;
  const auto costed = contest_.enter({{"search", solution.choices, {}, true, rewritten_}})[0];
  const Bytes unknown{std::numeric_limits<double>::infinity()};  // the search is over
  solved_.push_back({solution.choices, costed ? costed->over : unknown});
  return solved_.back();
}

// Costs all of them, also behind one that does not fit.
bool LayoutSearch::all_fit_in_memory(const std::vector<LayoutNetwork::Solution>& solutions) {
  bool all = true;
  for (const auto& solution : solutions) all = costed(solution).fits() && all;
  return all;
}

// Doubles the price of a byte until the solution fits, then halves the gap a few times: the
// cheapest price that fits gives up the least time. A rewritten model's is near the model's.
// Equal layers all do the same at one price: what is between two prices saves in some of them.
void LayoutSearch::raise_memory_price(const LayoutNetwork& network, const graph::Graph& graph) {
  const auto& result = contest_.result();
  const auto least = std::ranges::min(result.limits);
  const double scale = result.smallest.simulation.iteration / Seconds{1} / least.value;
  std::optional<Solved> faster;
  std::optional<Solved> fits;
  const auto fits_at = [&](double per_byte) {
    const auto& now = costed(solve(network, {{.async = 0.5, .per_byte = per_byte}})[0]);
    (now.fits() ? fits : faster) = now;
    return now.fits();
  };
  double low = 0;
  double high = memory_price_ > 0 ? memory_price_ : scale / 64;
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
  if (rewritten_ == nullptr) memory_price_ = high;
  constexpr std::size_t kShares = 4;
  if (!faster || contest_.is_over()) return;
  enter_between(
      contest_, graph,
      {"search", {faster->choices, faster->over}, {fits->choices, fits->over}, {}, rewritten_},
      kShares);
}

}  // namespace tandem::search
