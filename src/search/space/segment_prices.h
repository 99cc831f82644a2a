// Prices of time in each segment of a pass.
#pragma once

#include <array>

#include "predict/cost_model.h"
#include "search/space/precedence.h"

namespace tandem::search {

// Prices by segment. The communication of weights and their updates may be in any segment.
struct SegmentPrices {
  SegmentPrices(const predict::Prices& all) { of.fill(all); }  // NOLINT(*-explicit-*)
  explicit SegmentPrices(const std::array<predict::Prices, kSegments>& each)
      : of(each), are_equal(false) {}

  [[nodiscard]] const predict::Prices& at(Segment segment) const {
    return of[static_cast<std::size_t>(segment)];
  }
  // Returns the prices of an operator in `segment`. Its weights are sent and updated at any time.
  [[nodiscard]] predict::Prices get_operator_prices(Segment segment) const {
    auto out = at(segment);
    const auto& anytime = at(Segment::kAnytime);
    out.update = anytime.update;
    out.outer = anytime.outer;
    out.forward.outer = anytime.forward.outer;
    return out;
  }

  std::array<predict::Prices, kSegments> of;
  bool are_equal = true;
};

}  // namespace tandem::search
