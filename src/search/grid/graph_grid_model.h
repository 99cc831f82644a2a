// The grid of any graph on any machine: bounds are the operators' compute times, strategies are
// simulated.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "search/contest.h"
#include "search/estimates.h"
#include "search/grid/grid_model.h"

namespace tandem::search {

class GraphGridModel : public GridModel {
 public:
  // Strategies are evaluated as candidates of the contest where `may_win` says so, else not.
  GraphGridModel(Contest& contest, const strategies::Problem& problem, std::int64_t batch,
                 std::function<bool(const std::vector<plan::Choice>&)> may_win);

  std::unique_ptr<Pipeline> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                   std::int64_t micro_batches) override;
  std::optional<PassBound> bound(const PassKind& kind, const std::string& recompute) override;
  std::vector<Estimated> evaluate(const std::vector<strategies::Setting>& settings) override;
  [[nodiscard]] double work(std::int64_t micro_batches) const override {
    constexpr double kLeast = 1000;  // to lower a strategy takes as long
    return std::max(
        kLeast, static_cast<double>(problem_.model.size()) * static_cast<double>(micro_batches));
  }
  [[nodiscard]] std::size_t batch() const override { return 4; }

 private:
  // The devices of one tensor and context parallel group, as a machine for every kind of device.
  struct Part {
    std::vector<machine::Machine> machines;
    std::unique_ptr<machine::Digits> digits;
    std::unique_ptr<strategies::Problem> problem;
  };
  const Part* part_of(machine::DigitMask digits);
  [[nodiscard]] std::vector<double> compute_of(const Part& part,
                                               const strategies::Strategy& strategy) const;

  Contest& contest_;
  const strategies::Problem& problem_;
  std::int64_t batch_;
  std::function<bool(const std::vector<plan::Choice>&)> may_win_;
  std::vector<bool> has_gradient_;
  Bytes least_sent_;
  std::map<machine::DigitMask, std::unique_ptr<Part>> parts_;
};

}  // namespace tandem::search
