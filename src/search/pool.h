// The candidate pool of a search: candidates are evaluated, several at a time, and taken in their
// order, so that the best one does not depend on the number of threads.
#pragma once

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "predict/tables.h"
#include "search/candidate.h"
#include "search/evaluated.h"
#include "search/limits.h"
#include "search/search.h"
#include "search/simplicity.h"
#include "search/space/layout_network.h"
#include "strategies/grid.h"
#include "strategies/problem.h"

namespace tandem::search {

// An evaluated candidate of the pool.
struct Entry {
  Candidate candidate;
  Evaluated evaluated;
};

class CandidatePool {
 public:
  CandidatePool(const graph::Graph& model, const machine::Machine& machine, const Options& options);

  // What each came to, without its timeline; nothing for those that the search was over before. The
  // first of all candidates is costed in any case.
  // What takes `than` or longer, or longer than one before it that fits, and can be neither the
  // best nor the runner-up nor a leader, is given up while it is simulated, and comes to nothing.
  std::vector<std::optional<Evaluated>> enter(const std::vector<Candidate>& candidates,
                                              std::optional<Seconds> than = {});
  // Where it does not matter what each comes to.
  void compete(const std::vector<Candidate>& candidates) { enter(candidates, Seconds{}); }

  // Ends the search: makes the simplest of the candidates within Options::tolerance of the fastest
  // the best, and finds the runner-up.
  void choose();
  // Returns the complexity of the simplest candidate that choose() allows. Requires a best one.
  [[nodiscard]] Complexity simplest() const;
  // The step time that choose() allows.
  [[nodiscard]] Seconds allowed() const;

  // Where the question is what fits and an estimate answers it: no plan comes of this.
  void enter_estimated(const Evaluated& estimated);

  // The step time of the fastest candidate, whether it fits or not.
  [[nodiscard]] Seconds least_time() const { return least_time_; }
  // What candidates were rewritten into, without the model as it is.
  [[nodiscard]] const std::vector<std::shared_ptr<const Rewritten>>& rewritten() const {
    return rewritten_;
  }

  // Has Options::until come? Then result().stop_reason says which.
  bool is_over();
  // More rewritings than those that result() counts already.
  void report_progress(std::size_t rewritings = 0) const;

  Result& result() { return result_; }
  // What plain strategies of the model as it is came to.
  [[nodiscard]] const std::vector<Evaluated>& simulated() const { return simulated_; }
  // What result().best was made from.
  [[nodiscard]] const std::optional<Candidate>& best_candidate() const { return best_candidate_; }
  // The fastest that fit of those that this rewriting was laid out as, the first ones first:
  // layouts to change, of no setting.
  [[nodiscard]] std::vector<Candidate> leaders(
      const std::shared_ptr<const Rewritten>& rewritten) const;
  [[nodiscard]] std::optional<Seconds> fastest(
      const std::shared_ptr<const Rewritten>& rewritten) const;
  [[nodiscard]] const graph::Graph& model() const { return model_; }
  [[nodiscard]] const machine::Machine& machine() const { return machine_; }
  [[nodiscard]] const machine::Digits& digits() const { return digits_; }
  [[nodiscard]] const Options& options() const { return options_; }
  // Of layouts on these digits. Not for several threads.
  predict::CostModel& costs() { return costs_; }
  // Of networks of these costs, whatever graph they are of; fresh ones where none are shared.
  std::shared_ptr<LayoutNetwork::Tables> tables() {
    if (!tables_ || !options_.shares_tables) tables_ = std::make_shared<LayoutNetwork::Tables>();
    return tables_;
  }
  [[nodiscard]] bool are_equal_devices() const { return machine_.groups.empty(); }
  // Without, that nothing fits is certain: what needs least of known strategies is all to be found.
  [[nodiscard]] bool may_fit() const { return may_fit_; }
  // Simulating one strategy of it takes a good part of a second.
  [[nodiscard]] bool is_large() const { return model_.size() >= limits::kLargeNodes; }
  // Operators times micro-batches: a million are simulated in about a second of one core.
  [[nodiscard]] double passes(const plan::Schedule& schedule) const {
    return static_cast<double>(model_.size()) * static_cast<double>(schedule.micro_batches);
  }
  // Does a strategy keep to the dimensions the user allows? Only then may it win or seed.
  [[nodiscard]] bool is_within_dims(const strategies::Problem& problem,
                                    const std::vector<plan::Choice>& choices) const;

 private:
  std::optional<Evaluated> cost(const Candidate& candidate, Seconds limit,
                                predict::Extent extent = predict::Extent::kFew);
  [[nodiscard]] Seconds time_to_beat(const Candidate& candidate) const;
  [[nodiscard]] bool is_known_to_take(const Candidate& candidate, Seconds limit) const;
  void note(const Candidate& candidate, const Evaluated& costed);
  void find_faster(Seconds than);
  void note_fitting(const Candidate& candidate, const Evaluated& costed);
  // True if it is the best so far.
  bool consider(const Evaluated& costed);
  void consider_as_leader(const Candidate& candidate, const Evaluated& costed);

  const graph::Graph& model_;
  const machine::Machine& machine_;
  machine::Digits digits_;
  const Options& options_;
  predict::CostModel costs_;
  std::shared_ptr<LayoutNetwork::Tables> tables_;
  predict::Operations operations_;  // of one thread
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool may_fit_;
  bool over_ = false;
  Result result_;
  std::vector<Evaluated> simulated_;
  std::map<Complexity, Entry> by_complexity_;  // of those that fit the fastest
  std::map<std::string, Evaluated> by_name_;   // likewise
  Seconds least_time_{std::numeric_limits<double>::infinity()};
  std::vector<std::shared_ptr<const Rewritten>> rewritten_;
  std::optional<Candidate> best_candidate_;
  std::unordered_map<Hash, Seconds> known_;  // by candidate: what it takes at least
  std::map<const Rewritten*, std::vector<Entry>> leaders_;
};

}  // namespace tandem::search
