// The grid of a network of equal layers: bounds and step times are those of
// predict/estimator.h.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "search/estimates.h"
#include "search/grid/grid_model.h"

namespace tandem::search {

// Bounds of passes that parts of one machine have in common: those whose devices are joined alike.
class KnownPasses {
 public:
  // Null where what else the machine has matters, too.
  std::optional<PassBound>* find(const Case& on, const PassKind& kind, bool has_data_parallel,
                                 bool& is_new);

 private:
  struct Digit {
    std::size_t level = 0;
    std::int64_t size = 1;
    bool is_context = false;
    auto operator<=>(const Digit&) const = default;
  };
  // The kind without its digits, these, the counts of levels, the groups of devices, and whether
  // there are data parallel devices.
  using Key = std::tuple<PassKind, std::vector<Digit>, std::vector<std::int64_t>,
                         std::vector<std::string>, bool>;
  std::map<Key, std::optional<PassBound>> known_;
};

class FoldedGridModel : public GridModel {
 public:
  // `estimates` are of the case `on`; `known` of machines of which this one is a part.
  FoldedGridModel(const Case& on, Estimates& estimates, KnownPasses* known = nullptr)
      : on_(on), estimates_(estimates), known_(known) {}

  std::unique_ptr<Pipeline> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                   std::int64_t micro_batches) override;
  std::optional<PassBound> bound(const PassKind& kind, const std::string& recompute) override;
  std::vector<std::optional<Evaluated>> evaluate(
      const std::vector<strategies::Setting>& settings) override;

 private:
  std::optional<PassBound> found_bound(const PassKind& kind, const std::string& recompute);

  const Case& on_;
  Estimates& estimates_;
  KnownPasses* known_;
};

}  // namespace tandem::search
