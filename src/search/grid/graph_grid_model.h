// The grid of any graph on any machine, whose strategies are simulated. A bound consists of the
// operators' compute times, the collectives between two operators as far as no compute overlaps
// them, the accumulation of gradients, and the collectives of each weight.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "search/estimates.h"
#include "search/grid/backward_reads.h"
#include "search/grid/grid_model.h"
#include "search/pool.h"

namespace tandem::search {

class GraphGridModel : public GridModel {
 public:
  // Strategies are evaluated as candidates of the pool if `may_win` returns true for them; others
  // are skipped.
  GraphGridModel(CandidatePool& pool, const strategies::Problem& problem, std::int64_t batch,
                 std::function<bool(const std::vector<plan::Choice>&)> may_win);

  std::unique_ptr<Pipeline> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                   std::int64_t micro_batches) override;
  std::optional<PassBound> bound_pass(const PassKind& kind,
                                      strategies::Recompute recompute) override;
  std::optional<std::vector<SharedWeight>> list_shared_weights(const PassKind& kind,
                                                               machine::DigitMask ranks,
                                                               bool is_sharded) override;
  std::vector<std::optional<Evaluated>> evaluate(
      const std::vector<strategies::Setting>& settings) override;
  [[nodiscard]] double estimate_work(std::int64_t micro_batches) const override {
    constexpr double kLeast = 1000;  // lowering a strategy takes as long
    return std::max(
        kLeast, static_cast<double>(problem_.model.size()) * static_cast<double>(micro_batches));
  }
  [[nodiscard]] std::size_t strategies_at_once() const override { return 4; }

 private:
  // The devices of one tensor and context parallel group, as one machine for each kind of device.
  struct ParallelGroup {
    machine::DigitMask mask = 0;  // digits of the group
    std::vector<machine::Machine> machines;
    std::unique_ptr<machine::Digits> digits;
    std::unique_ptr<strategies::Problem> problem;
  };
  const ParallelGroup* get_group(machine::DigitMask digits);
  PassBound bound_compute(const ParallelGroup& part, const strategies::Strategy& strategy);
  [[nodiscard]] ops::InputMask find_differentiated_inputs(graph::NodeId id) const;
  // Returns whether the operator runs in every micro-batch.
  [[nodiscard]] bool is_in_pass(graph::NodeId id) const;
  // An operator's result that is resharded before another operator reads it, and its gradient on
  // the way back.
  struct ReshardedResult {
    std::size_t from;  // producer
    std::size_t to;    // reader
    double there;      // seconds of the forward resharding
    double back;       // seconds of the backward one
  };
  void add_results(const ParallelGroup& part, const strategies::Strategy& strategy,
                   PassBound& out) const;
  std::vector<ReshardedResult> list_resharded_results(const ParallelGroup& part,
                                                      const strategies::Strategy& strategy);
  void add_waits(std::vector<ReshardedResult> moved,
                 const std::vector<predict::CostModel::PassTimes>& times,
                 const std::vector<double>& accumulation, PassBound& out) const;
  [[nodiscard]] std::vector<double> compute_accumulation_times(
      const machine::Machine& machine, const machine::Digits& digits,
      const strategies::Strategy& strategy) const;
  [[nodiscard]] machine::Layout extend_to_all_digits(const ParallelGroup& part,
                                                     const machine::Layout& layout) const;
  void record_weights(const PassKind& kind, const ParallelGroup& part,
                      const strategies::Strategy& strategy);

  CandidatePool& pool_;
  const strategies::Problem& problem_;
  std::int64_t batch_;
  std::function<bool(const std::vector<plan::Choice>&)> may_win_;
  std::vector<bool> has_gradient_;
  BackwardReads backward_reads_;
  Bytes least_sent_;
  std::map<machine::DigitMask, std::unique_ptr<ParallelGroup>> parts_;
  struct UsedWeight {
    graph::NodeId node;
    machine::Layout layout;  // layout in which it is read
    bool is_table;
    bool is_read_by_backward;  // by the backward pass
  };
  // Trained weights, by tensor and context digits.
  std::map<std::pair<machine::DigitMask, machine::DigitMask>, std::vector<UsedWeight>> used_;
};

}  // namespace tandem::search
