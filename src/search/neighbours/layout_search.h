// The layout network of a graph, solved for a few prices of asynchronous communication, and of
// memory when the result does not fit; each solution is lowered and simulated.
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

  // Of the problem's model, or of what it was rewritten into.
  void search(const strategies::Problem& problem, const std::shared_ptr<const Rewritten>& rewritten,
              const std::vector<std::vector<plan::Choice>>& seeds);

  // What a byte had to cost, in seconds, for the model's layouts to fit; 0 where the cheapest do
  // anyway.
  [[nodiscard]] double memory_price() const { return memory_price_; }

  // Lower bound of the step times of all that was laid out with every operator on all devices,
  // where it is known: not where layouts decide which devices wait. It is that of weights stored as
  // they are used; others are updated in less time. Found by raising what the cheapest layouts cost
  // while that is less than `enough`.
  [[nodiscard]] std::optional<Seconds> bound(Seconds enough);

 private:
  std::vector<LayoutNetwork::Solution> solve(const LayoutNetwork& network,
                                             const std::vector<predict::Prices>& prices);
  bool simulate(const std::vector<LayoutNetwork::Solution>& solutions, const graph::Graph& graph);
  [[nodiscard]] bool is_too_slow(const LayoutNetwork::Solution& solution,
                                 const graph::Graph& graph) const;
  // A graph that was laid out.
  struct LaidOut {
    std::shared_ptr<const Rewritten> rewritten;
    std::vector<std::vector<plan::Choice>> seeds;
    LayoutBound bound;  // of its compute and updates
    Seconds fastest;    // of its layouts with every operator on all devices
  };
  [[nodiscard]] LayoutNetwork network_of(const graph::Graph& graph,
                                         const std::vector<std::vector<plan::Choice>>& seeds);
  void note(const strategies::Problem& problem, const std::vector<std::vector<plan::Choice>>& seeds,
            const LayoutBound& bound);
  void save_memory(LayoutNetwork& network, bool fits);
  const Entry& costed(const LayoutNetwork::Solution& solution);
  bool all_fit_in_memory(const std::vector<LayoutNetwork::Solution>& solutions);
  [[nodiscard]] bool has_enough();
  void save_a_little(const LayoutNetwork& network);
  [[nodiscard]] double memory_scale() const;
  [[nodiscard]] double least_memory_scale() const;
  // Prices of a byte: at the lower one the solution does not fit, at the higher one it does.
  struct Gap {
    double low;
    double high;
  };
  std::optional<Gap> gap_of_prices(double first, const std::function<Entry(double)>& at_price);
  void raise_memory_price(const LayoutNetwork& network);

  CandidatePool& pool_;
  const Options& options_;
  std::shared_ptr<const Rewritten> rewritten_;  // what is being laid out; null: the model
  std::vector<Entry> solved_;
  double memory_price_ = 0;
  std::vector<LaidOut> laid_out_;
  bool is_bounded_ = true;
};

}  // namespace tandem::search
