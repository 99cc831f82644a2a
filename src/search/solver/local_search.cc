#include "search/solver/local_search.h"

#include <cmath>
#include <random>

namespace tandem::search {

namespace {

// A state for every variable, initially the first, and its cost.
class StateAssignment {
 public:
  StateAssignment(const CostNetwork& network, const Followers& followers)
      : network_(network),
        followers_(followers),
        edges_(network.unary.size()),
        state_(network.unary.size()) {
    for (const auto& e : network.edges) {
      edges_[e.a].push_back({e.b, e.table.get(), true});
      edges_[e.b].push_back({e.a, e.table.get(), false});
    }
    for (std::size_t v = 0; v < state_.size(); ++v) {
      if (!followers[v]) choices_.push_back(v);
    }
    cost_ = compute_total();
    for (std::size_t v = 0; v < state_.size(); ++v) {
      if (followers[v]) set(v, find_best_state(v));
    }
  }

  // Returns the variables that do not follow others.
  [[nodiscard]] const std::vector<std::size_t>& choices() const { return choices_; }
  [[nodiscard]] std::size_t count_states(std::size_t v) const { return network_.unary[v]->rows; }
  [[nodiscard]] double cost() const { return cost_; }
  [[nodiscard]] const std::vector<std::size_t>& state() const { return state_; }

  // Sets the state of `v` and updates its followers.
  void change(std::size_t v, std::size_t state) {
    before_.clear();
    before_cost_ = cost_;
    replace(v, state);
    for (const auto& e : edges_[v]) {
      if (followers_[e.other]) replace(e.other, find_best_state(e.other));
    }
  }
  // Reverts the last change.
  void undo() {
    for (auto at = before_.rbegin(); at != before_.rend(); ++at) state_[at->first] = at->second;
    cost_ = before_cost_;
  }

 private:
  struct NeighbourEdge {
    std::size_t other;
    const Table* table;
    bool is_row;
  };

  [[nodiscard]] double compute_total() const {
    double out = 0;
    for (std::size_t v = 0; v < state_.size(); ++v) out += network_.unary[v]->at(state_[v]);
    for (const auto& e : network_.edges) out += e.table->at(state_[e.a], state_[e.b]);
    return out;
  }

  // Returns the sum of all terms that depend on the state of `v`.
  [[nodiscard]] double compute_local_cost(std::size_t v, std::size_t state) const {
    double out = network_.unary[v]->at(state);
    for (const auto& e : edges_[v]) {
      const auto other = state_[e.other];
      out += e.is_row ? e.table->at(state, other) : e.table->at(other, state);
    }
    return out;
  }

  [[nodiscard]] std::size_t find_best_state(std::size_t v) const {
    auto best = state_[v];
    double least = compute_local_cost(v, best);
    for (std::size_t s = 0; s < count_states(v); ++s) {
      const double cost = compute_local_cost(v, s);
      if (cost >= least) continue;
      least = cost;
      best = s;
    }
    return best;
  }

  void set(std::size_t v, std::size_t state) {
    const double more = compute_local_cost(v, state) - compute_local_cost(v, state_[v]);
    state_[v] = state;
    // Rounding would lose all other costs next to kImpossible.
    const bool is_exact = cost_ < kImpossible / 2 && more < kImpossible / 2;
    cost_ = is_exact ? cost_ + more : compute_total();
  }

  void replace(std::size_t v, std::size_t state) {
    if (state == state_[v]) return;
    before_.emplace_back(v, state_[v]);
    set(v, state);
  }

  const CostNetwork& network_;
  const Followers& followers_;
  std::vector<std::vector<NeighbourEdge>> edges_;
  std::vector<std::size_t> state_;
  std::vector<std::size_t> choices_;
  double cost_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> before_;  // variables and their former states
  double before_cost_ = 0;
};

bool improve_variable(StateAssignment& now, std::size_t v) {
  const double before = now.cost();
  const auto first = now.state()[v];
  auto best = first;
  double least = before - 1e-9 * std::abs(before);
  for (std::size_t s = 0; s < now.count_states(v); ++s) {
    if (s == first) continue;
    now.change(v, s);
    if (now.cost() < least) {
      least = now.cost();
      best = s;
    }
    now.undo();
  }
  if (best != first) now.change(v, best);
  return best != first;
}

}  // namespace

Minimum descend(const CostNetwork& network, const Followers& followers) {
  StateAssignment now(network, followers);
  constexpr int kMostRounds = 100;
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; ++round) {
    changed = false;
    for (auto v : now.choices()) changed = improve_variable(now, v) || changed;
  }
  return {now.state(), now.cost(), false, 0};
}

Minimum walk(const CostNetwork& network, const Followers& followers, const Walk& options) {
  StateAssignment now(network, followers);
  Minimum best{now.state(), now.cost(), false, 0};
  const auto count = now.choices().size();
  if (count == 0) return best;
  std::mt19937_64 random(options.seed);
  std::uniform_real_distribution<double> chance(0, 1);
  std::size_t gained = 0;  // last step with a gain
  for (std::size_t step = 0; step < options.most_steps * count; ++step) {
    if (step >= options.least_steps * count && step >= 2 * gained) break;
    const auto v = now.choices()[random() % count];
    const double before = now.cost();
    now.change(v, random() % now.count_states(v));
    const double loss = now.cost() - before;
    const double scale = options.warmth * best.cost / static_cast<double>(count);
    if (loss > 0 && chance(random) >= std::exp(-loss / scale)) now.undo();
    if (now.cost() < best.cost) {
      gained = step;
      best = {now.state(), now.cost(), false, 0};
    }
  }
  return best;
}

}  // namespace tandem::search
