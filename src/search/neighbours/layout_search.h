// The layout network of a graph, solved for a few prices of asynchronous communication, and of
// memory when the result does not fit; each solution is lowered and simulated.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "search/contest.h"
#include "search/space/layout_network.h"

namespace tandem::search {

// Shares, from 0 to 1, that make a lower bound of a step's time. A device that takes part in
// everything is busy on its compute stream and on its outer stream (predict/transitions.h), and
// passes one segment after the other (space/precedence.h), forward and then backward. So the step
// takes no less than the shares' sum: in each segment the load of the compute stream by its share,
// that of the outer stream by the rest.
struct StreamWeights {
  struct Shares {
    double forward = 1;     // of the compute stream in the forward pass
    double backward = 0.5;  // and in the backward pass
    bool operator==(const Shares&) const = default;
  };
  Shares chain;     // in segments of one operator
  Shares branches;  // in others
  // Communication that nothing overlaps adds to compute, and so do updates, but these two may
  // overlap each other: in the backward pass updates add by this share, the former by the rest.
  double update = 0;
  // Of the outer stream's rest, what belongs to the streams of its level to roots and from them.
  double rooted = 0;

  // The prices at which a layout costs that sum.
  [[nodiscard]] SegmentPrices prices(const LayoutNetwork& network) const;
  bool operator==(const StreamWeights&) const = default;
};

class LayoutSearch {
 public:
  explicit LayoutSearch(Contest& contest) : contest_(contest), options_(contest.options()) {}

  // Of the problem's model, or of what it was rewritten into.
  void search(const strategies::Problem& problem, const std::shared_ptr<const Rewritten>& rewritten,
              const std::vector<std::vector<plan::Choice>>& seeds);

  // What a byte had to cost, in seconds, for the model's layouts to fit; 0 where the cheapest do
  // anyway.
  [[nodiscard]] double memory_price() const { return memory_price_; }

  // Of all that was laid out with every operator on all devices, where it is known: not where
  // layouts decide which devices wait. It is that of weights stored as they are used; others are
  // updated in less time.
  [[nodiscard]] std::optional<Seconds> bound() const { return is_bounded_ ? bound_ : std::nullopt; }

 private:
  std::vector<LayoutNetwork::Solution> solve(const LayoutNetwork& network,
                                             const std::vector<predict::Prices>& prices);
  bool simulate(const std::vector<LayoutNetwork::Solution>& solutions, const graph::Graph& graph);
  [[nodiscard]] bool is_too_slow(const LayoutNetwork::Solution& solution,
                                 const graph::Graph& graph) const;
  // The bound of these weights, `free`, or a higher one of others.
  Seconds raised(const LayoutNetwork& network, Seconds bound, StreamWeights free);
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

  Contest& contest_;
  const Options& options_;
  std::shared_ptr<const Rewritten> rewritten_;  // what is being laid out; null: the model
  std::vector<Entry> solved_;
  double memory_price_ = 0;
  std::optional<Seconds> bound_;
  StreamWeights weights_;  // of the highest bound so far
  bool is_bounded_ = true;
};

}  // namespace tandem::search
