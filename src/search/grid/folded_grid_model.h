// The grid of a network of equal layers: bounds and step times are those of predict/estimator.h.
#pragma once

#include "search/estimates.h"
#include "search/grid/grid_model.h"

namespace tandem::search {

class FoldedGridModel : public GridModel {
 public:
  // `estimates` are of the case `on`.
  FoldedGridModel(const Case& on, Estimates& estimates) : on_(on), estimates_(estimates) {}

  std::unique_ptr<Pipeline> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                   std::int64_t micro_batches) override;
  std::optional<PassBound> bound(const PassKind& kind, const std::string& recompute) override;
  std::vector<Estimated> evaluate(const std::vector<strategies::Setting>& settings) override;

 private:
  const Case& on_;
  Estimates& estimates_;
};

}  // namespace tandem::search
