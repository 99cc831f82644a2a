// The part of a rated value that is reached in practice: one number, or a curve over sizes, such as
// the protocols of a network or the caches of a computer make it. Between two sizes of the curve it
// is a power of the size (straight in logarithms), and so is the time; beyond the ends it stays.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace tandem::machine {

class Utilization {
 public:
  struct Point {
    Bytes size;
    double part = 1;
    bool operator==(const Point&) const = default;
  };

  Utilization(double constant = 1) : constant_(constant) {}  // NOLINT: a number is one
  // Sizes ascending, at least one. More must take no less time: parts grow at most as sizes do.
  explicit Utilization(std::vector<Point> points);

  [[nodiscard]] double at(Bytes size) const {
    return points_.empty() ? constant_ : interpolate(size);
  }
  // Whether it is the same for all sizes.
  [[nodiscard]] bool is_constant() const { return points_.size() < 2; }
  // Empty where it is one number.
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

  bool operator==(const Utilization&) const = default;

  // May `next` follow `last` in a curve?
  static bool may_follow(const Point& last, const Point& next) {
    return next.size > last.size && next.part * last.size.value <= last.part * next.size.value;
  }

 private:
  [[nodiscard]] double interpolate(Bytes size) const;

  double constant_ = 1;
  std::vector<Point> points_;
};

// "0.9"; "0.223 to 1 by size".
std::string to_text(const Utilization& utilization);

}  // namespace tandem::machine
