// Points of one case by estimates of its steps (predict/estimator.h).
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "predict/estimator.h"
#include "search/explore.h"

namespace tandem::search {

// Of a case that has a network. Not thread-safe.
class Estimates {
 public:
  explicit Estimates(Case on) : on_(std::move(on)) {}

  // Nothing where there is no estimate. Throws UserError where the setting is impossible here.
  std::optional<Point> point(const strategies::Setting& setting);
  // Nor where it may be off by more than 1 %.
  std::optional<Point> near_point(const strategies::Setting& setting);

  // Of predict/estimator.h, for so many samples.
  std::optional<predict::PassBound> bound_pass(const strategies::Setting& setting,
                                               std::int64_t batch, predict::Cut cut);
  std::optional<predict::PipelineDivision> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                                  std::int64_t micro_batches);

 private:
  std::optional<Point> point(const strategies::Setting& setting, bool rough_too);
  predict::Estimator& estimator(const plan::Precision& precision);

  const Case on_;
  std::vector<std::pair<plan::Precision, std::unique_ptr<predict::Estimator>>> estimators_;
};

// A costed strategy as a point of the case.
Point point_of(const Case& on, Costed costed);
plan::Precision precision_of(const Case& on, const strategies::Setting& setting);

}  // namespace tandem::search
