// The fraction of a rated value that is reached in practice: one number, or a curve over sizes. A
// curve models the protocols of a network or the caches of a computer. Between two sizes, the
// fraction is a power of the size (linear in logarithms), and so is the time; beyond the ends it is
// constant.
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
  // Constructs a curve from at least one point. Sizes must ascend. A larger size must not take less
  // time, so fractions grow at most in proportion to sizes.
  explicit Utilization(std::vector<Point> points);

  [[nodiscard]] double at(Bytes size) const {
    return points_.empty() ? constant_ : interpolate(size);
  }
  // Returns whether the fraction is the same for all sizes.
  [[nodiscard]] bool is_constant() const { return points_.size() < 2; }
  // Returns the points of the curve, or an empty list for a constant.
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

  bool operator==(const Utilization&) const = default;

  // Returns whether `next` may follow `last` in a curve.
  static bool may_follow(const Point& last, const Point& next) {
    return next.size > last.size && next.part * last.size.value <= last.part * next.size.value;
  }

 private:
  [[nodiscard]] double interpolate(Bytes size) const;

  double constant_ = 1;
  std::vector<Point> points_;
};

// Returns a short text: "0.9", or "0.223 to 1 by size".
std::string to_text(const Utilization& utilization);

}  // namespace tandem::machine
