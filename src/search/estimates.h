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

  // Estimates a setting. Returns nothing where there is no estimate, or no such strategy here.
  std::optional<Evaluated> find(const strategies::Setting& setting);
  // The same; throws UserError where the setting is impossible here.
  std::optional<Evaluated> point(const strategies::Setting& setting);

  // Of predict/estimator.h, for so many samples.
  std::optional<predict::PassBound> bound_pass(const strategies::Setting& setting,
                                               std::int64_t batch, bool in_pieces);
  std::optional<predict::PipelineDivision> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                                  std::int64_t micro_batches);

 private:
  predict::Estimator& estimator(const plan::Precision& precision);

  const Case on_;
  std::vector<std::pair<plan::Precision, std::unique_ptr<predict::Estimator>>> estimators_;
};

// Makes a copy without the graph and the timeline, with the case's throughput.
Evaluated point_of(const Case& on, const Evaluated& evaluated);
plan::Precision precision_of(const Case& on, const strategies::Setting& setting);

}  // namespace tandem::search
