#include "machine/utilization.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem::machine {

Utilization::Utilization(std::vector<Point> points)
    : constant_(points.empty() ? 1 : points.front().part), points_(std::move(points)) {
  CHECK(!points_.empty());
  for (std::size_t i = 1; i < points_.size(); ++i) {
    CHECK(may_follow(points_[i - 1], points_[i]), points_[i].size.value);
  }
}

double Utilization::interpolate(Bytes size) const {
  const auto above = std::ranges::upper_bound(points_, size, {}, &Point::size);
  if (above == points_.begin()) return points_.front().part;
  if (above == points_.end()) return points_.back().part;
  const auto& [from, part] = *(above - 1);
  const double exponent = std::log(above->part / part) / std::log(above->size / from);
  return part * std::pow(size / from, exponent);
}

std::string to_text(const Utilization& utilization) {
  if (utilization.is_constant()) return fmt::format("{:.3g}", utilization.at(Bytes{}));
  const auto [least, most] =
      std::ranges::minmax(utilization.points(), {}, &Utilization::Point::part);
  return fmt::format("{:.3g} to {:.3g} by size", least.part, most.part);
}

}  // namespace tandem::machine
