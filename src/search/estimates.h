// Computes points of one case by estimating its steps (predict/estimator.h).
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "predict/estimator.h"
#include "search/explore.h"

namespace tandem::search {

// Estimates the settings of a case that has a network. Not thread-safe.
class Estimates {
 public:
  explicit Estimates(Case on) : on_(std::move(on)) {}

  // Returns the estimate of a setting. Returns nullopt if there is no estimate or the case has no
  // such strategy.
  std::optional<Evaluated> find(const strategies::Setting& setting);
  // Returns the estimate of a setting, or nullopt if there is none. Throws UserError if the setting
  // is impossible for this case.
  std::optional<Evaluated> compute_estimate(const strategies::Setting& setting);

  // Call the functions of these names in predict/estimator.h. `batch` is the number of samples.
  std::optional<predict::MicroBatchBound> bound_pass(const strategies::Setting& setting,
                                                     std::int64_t batch, bool in_pieces);
  std::optional<predict::PipelineDivision> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                                  std::int64_t micro_batches);

 private:
  predict::Estimator& get_estimator(const plan::Precision& precision);

  const Case on_;
  std::vector<std::pair<plan::Precision, std::unique_ptr<predict::Estimator>>> estimators_;
};

// Returns a copy of `evaluated` without graph and timeline, with the case's throughput.
Evaluated make_point(const Case& on, const Evaluated& evaluated);
plan::Precision get_precision(const Case& on, const strategies::Setting& setting);

}  // namespace tandem::search
