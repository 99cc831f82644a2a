// One strategy of the grid in few bytes, since there are millions.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "search/grid/grid_model.h"
#include "search/grid/split.h"

namespace tandem::search {

// A strategy: its kind of pass, and the use of the remaining devices.
struct Item {
  std::uint32_t kind = 0;   // index of a PassKind
  std::uint32_t split = 0;  // index of a Split
  std::int64_t micro_batches = 1;
  std::uint16_t stages_of_rank = 1;
  std::uint8_t zero = 0;
  bool is_scheduled = false;  // whether `bound` comes from its schedule
  double bound = 0;

  // Unique key of a strategy; simpler strategies compare lower.
  using Key = std::tuple<std::uint32_t, std::uint16_t, std::uint8_t, std::uint32_t>;
  [[nodiscard]] Key key() const { return {split, stages_of_rank, zero, kind}; }
};

struct LowestBoundFirst {
  bool operator()(const Item& a, const Item& b) const {
    return std::tuple(a.bound, a.key()) > std::tuple(b.bound, b.key());
  }
};

// Returns the family of an item, whose split is `split`.
strategies::Family get_family(const Item& item, const Split& split);

// Returns the setting of an item. `split` and `kind` are the item's; `recompute` is the kind's.
strategies::Setting make_setting(const Item& item, const Split& split, const PassKind& kind,
                                 strategies::Recompute recompute);

}  // namespace tandem::search
