// The grid of a network of equal layers. Bounds and step times come from predict/estimator.h.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "search/estimates.h"
#include "search/grid/grid_model.h"

namespace tandem::search {

// Cache of pass bounds that parts of one machine share if their devices are connected in the same
// way.
class KnownPasses {
 public:
  // Returns the cache entry of a pass; `is_new` tells whether it was just created. Returns null if
  // the bound depends on other properties of the machine.
  std::optional<PassBound>* find(const Case& on, const PassKind& kind, bool has_data_parallel,
                                 bool& is_new);

 private:
  struct GroupDigit {
    std::size_t level = 0;
    std::int64_t size = 1;
    bool is_context = false;
    auto operator<=>(const GroupDigit&) const = default;
  };
  // The kind without its digits, the tensor and context digits, the unit counts of levels, the
  // device groups, and whether there is data parallelism.
  using Key = std::tuple<PassKind, std::vector<GroupDigit>, std::vector<std::int64_t>,
                         std::vector<std::string>, bool>;
  std::map<Key, std::optional<PassBound>> known_;
};

class FoldedGridModel : public GridModel {
 public:
  // `estimates` belong to the case `on`. `known` is the cache of a machine that this one is a part
  // of.
  FoldedGridModel(const Case& on, Estimates& estimates, KnownPasses* known = nullptr)
      : on_(on), estimates_(estimates), known_(known) {}

  std::unique_ptr<Pipeline> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                   std::int64_t micro_batches) override;
  std::optional<PassBound> bound_pass(const PassKind& kind,
                                      strategies::Recompute recompute) override;
  std::vector<std::optional<Evaluated>> evaluate(
      const std::vector<strategies::Setting>& settings) override;

 private:
  std::optional<PassBound> compute_pass_bound(const PassKind& kind,
                                              strategies::Recompute recompute);

  const Case& on_;
  Estimates& estimates_;
  KnownPasses* known_;
};

}  // namespace tandem::search
