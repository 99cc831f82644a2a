// Solves a graph's layout network for a few prices of overlapped communication. If the results do
// not fit, it also raises the price of memory. Each solution is lowered and simulated.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "search/pool.h"
#include "search/space/layout_bound.h"
#include "search/space/layout_network.h"

namespace tandem::search {

class LayoutSearch {
 public:
  explicit LayoutSearch(CandidatePool& pool) : pool_(pool), options_(pool.options()) {}

  // Searches layouts for the problem's model, or for the graph that it was rewritten into.
  // `rewritten` is null for the model itself.
  void search(const strategies::Problem& problem, const std::shared_ptr<const Rewritten>& rewritten,
              const std::vector<std::vector<plan::Choice>>& seeds);

  // Returns the price of a byte, in seconds, at which the model's layouts fit; 0 if the cheapest
  // layouts fit anyway.
  [[nodiscard]] double memory_price() const { return memory_price_; }

  // Returns a lower bound of the step times of all layouts with every operator on all devices.
  // Returns nullopt if the bound is unknown, as when layouts decide which devices wait. The bound
  // holds for weights that are stored as they are used; sharded weights are updated in less time.
  // Raises the cost of the cheapest layouts while it is less than `enough`.
  [[nodiscard]] std::optional<Seconds> compute_bound(Seconds enough);

 private:
  std::vector<LayoutNetwork::Solution> solve(const LayoutNetwork& network,
                                             const std::vector<predict::Prices>& prices);
  bool simulate(const std::vector<LayoutNetwork::Solution>& solutions, const graph::Graph& graph);
  [[nodiscard]] bool is_too_slow(const LayoutNetwork::Solution& solution,
                                 const graph::Graph& graph) const;
  // A graph that was laid out.
  struct LaidOut {
    std::shared_ptr<const Rewritten> rewritten;
    std::vector<std::vector<plan::Choice>> initial_choices;
    LayoutBound bound;  // bound of its compute and updates
    Seconds fastest;    // time of its best layouts with every operator on all devices
  };
  [[nodiscard]] LayoutNetwork make_network(const graph::Graph& graph,
                                           const std::vector<std::vector<plan::Choice>>& seeds);
  void record_bound(const strategies::Problem& problem,
                    const std::vector<std::vector<plan::Choice>>& seeds, const LayoutBound& bound);
  void save_memory(LayoutNetwork& network, bool fits);
  const EvaluatedCandidate& simulate_once(const LayoutNetwork::Solution& solution);
  bool simulate_all(const std::vector<LayoutNetwork::Solution>& solutions);
  [[nodiscard]] bool may_stop_saving();
  void try_small_savings(const LayoutNetwork& network);
  void try_prices_between(const LayoutNetwork& network);
  [[nodiscard]] double compute_memory_scale() const;
  [[nodiscard]] double compute_least_memory_scale() const;
  // Prices of a byte: the solution does not fit at the lower one and fits at the higher one.
  struct Gap {
    double low;
    double high;
  };
  std::optional<Gap> find_price_gap(double first,
                                    const std::function<EvaluatedCandidate(double)>& at_price);
  std::optional<Gap> try_prices_near(double price,
                                     const std::function<EvaluatedCandidate(double)>& at_price);
  void raise_memory_price(const LayoutNetwork& network);

  CandidatePool& pool_;
  const Options& options_;
  std::shared_ptr<const Rewritten> rewritten_;  // the graph that is laid out; null: the model
  std::vector<EvaluatedCandidate> solved_;
  double memory_price_ = 0;
  std::vector<LaidOut> laid_out_;
  bool is_bounded_ = true;
};

}  // namespace tandem::search
