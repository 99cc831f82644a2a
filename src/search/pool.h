// The candidate pool of a search. Candidates are evaluated several at a time but accepted in their
// order, so that the best does not depend on the number of threads.
#pragma once

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "predict/cost_model.h"
#include "search/candidate.h"
#include "search/complexity.h"
#include "search/evaluated.h"
#include "search/limits.h"
#include "search/search.h"
#include "search/space/layout_network.h"
#include "strategies/grid.h"
#include "strategies/problem.h"

namespace tandem::search {

// An evaluated candidate of the pool.
struct EvaluatedCandidate {
  Candidate candidate;
  Evaluated evaluated;
};

class CandidatePool {
 public:
  CandidatePool(const graph::Graph& model, const machine::Machine& machine, const Options& options);

  // Evaluates candidates and returns their records without timelines. Returns nullopt for those
  // that come after the end of the search; the first candidate of the pool is always evaluated. A
  // candidate that takes `than` or longer, or longer than an earlier one that fits, is given up
  // during its simulation. It must also be too slow to be the best, the runner-up or a leader. Its
  // record is nullopt, too.
  std::vector<std::optional<Evaluated>> enter(const std::vector<Candidate>& candidates,
                                              std::optional<Seconds> than = {});
  // Evaluates candidates if the caller does not need their records.
  void enter_without_records(const std::vector<Candidate>& candidates) {
    enter(candidates, Seconds{});
  }

  // Ends the search: takes as the best the simplest candidate within Options::tolerance of the
  // fastest, and finds the runner-up.
  void choose_best();
  // Returns the complexity of the simplest candidate that choose() allows. Requires a best
  // candidate.
  [[nodiscard]] Complexity find_least_complexity() const;
  // Returns the longest step time that choose() allows.
  [[nodiscard]] Seconds longest_allowed_time() const;

  // Enters an estimate, if the question is only whether something fits. No plan is made from it.
  void enter_estimate(const Evaluated& estimated);

  // Returns the step time of the fastest candidate, whether it fits or not.
  [[nodiscard]] Seconds least_time() const { return least_time_; }
  // Returns the rewrites of all candidates, without the model itself.
  [[nodiscard]] const std::vector<std::shared_ptr<const Rewritten>>& used_rewrites() const {
    return rewritten_;
  }

  // Returns whether Options::until has ended the search. Then result().stop_reason gives the
  // reason.
  bool is_over();
  // Reports progress. `rewrites` counts rewrites that result() does not count yet.
  void report_progress(std::size_t rewrites = 0) const;

  Result& result() { return result_; }
  // Returns the records of simulated plain strategies of the unchanged model.
  [[nodiscard]] const std::vector<Evaluated>& simulated() const { return simulated_; }
  // Returns the candidate that result().best was made from.
  [[nodiscard]] const std::optional<Candidate>& best_candidate() const { return best_candidate_; }
  // Returns the fastest candidates of this rewrite that fit, fastest first. Their layouts may be
  // changed, so they have no setting.
  [[nodiscard]] std::vector<Candidate> list_leaders(
      const std::shared_ptr<const Rewritten>& rewritten) const;
  [[nodiscard]] std::optional<Seconds> find_fastest_time(
      const std::shared_ptr<const Rewritten>& rewritten) const;
  [[nodiscard]] const graph::Graph& model() const { return model_; }
  [[nodiscard]] const machine::Machine& machine() const { return machine_; }
  [[nodiscard]] const machine::Digits& digits() const { return digits_; }
  [[nodiscard]] const Options& options() const { return options_; }
  // Returns the cost model of layouts on these digits. Not thread-safe.
  predict::CostModel& costs() { return costs_; }
  // Returns the cost tables of networks, which graphs share. Returns new ones if
  // Options::shares_tables is unset.
  std::shared_ptr<LayoutNetwork::Tables> get_tables() {
    if (!tables_ || !options_.shares_tables) tables_ = std::make_shared<LayoutNetwork::Tables>();
    return tables_;
  }
  [[nodiscard]] bool has_equal_devices() const { return machine_.groups.empty(); }
  // Returns false if certainly no plan fits. Then only the strategy that needs the least memory can
  // be found.
  [[nodiscard]] bool may_fit() const { return may_fit_; }
  // Returns whether simulating one strategy takes a good part of a second.
  [[nodiscard]] bool is_large() const { return model_.size() >= limits::kLargeNodes; }
  // Returns operators times micro-batches. A million take about a second on one core.
  [[nodiscard]] double count_operator_passes(const plan::Schedule& schedule) const {
    return static_cast<double>(model_.size()) * static_cast<double>(schedule.micro_batches);
  }
  // Returns whether a strategy partitions only dimensions that the user allows. Only then may it
  // win or seed the search.
  [[nodiscard]] bool is_within_dims(const strategies::Problem& problem,
                                    const std::vector<plan::Choice>& choices) const;

 private:
  std::optional<Evaluated> cost(const Candidate& candidate, Seconds limit,
                                predict::Extent extent = predict::Extent::kFew);
  [[nodiscard]] Seconds find_time_to_beat(const Candidate& candidate) const;
  [[nodiscard]] bool is_known_to_take(const Candidate& candidate, Seconds limit) const;
  void record_outcome(const Candidate& candidate, const Evaluated& costed);
  void find_faster(Seconds than);
  void record_fitting(const Candidate& candidate, const Evaluated& costed);
  // Returns whether it is the best so far.
  bool consider(const Evaluated& costed);
  void consider_as_leader(const Candidate& candidate, const Evaluated& costed);

  const graph::Graph& model_;
  const machine::Machine& machine_;
  machine::Digits digits_;
  const Options& options_;
  predict::CostModel costs_;
  std::shared_ptr<LayoutNetwork::Tables> tables_;
  predict::Operations operations_;  // cache for one thread
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool may_fit_;
  bool over_ = false;
  Result result_;
  std::vector<Evaluated> simulated_;
  std::map<Complexity, EvaluatedCandidate> by_complexity_;  // fastest that fits
  std::map<std::string, Evaluated> by_name_;                // fastest that fits
  Seconds least_time_{std::numeric_limits<double>::infinity()};
  std::vector<std::shared_ptr<const Rewritten>> rewritten_;
  std::optional<Candidate> best_candidate_;
  std::unordered_map<Hash, Seconds> known_;  // lower bound of the step time, by candidate
  std::map<const Rewritten*, std::vector<EvaluatedCandidate>> leaders_;
};

}  // namespace tandem::search
