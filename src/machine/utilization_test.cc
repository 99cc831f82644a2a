#include "machine/utilization.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::machine {
namespace {

const Utilization kCurve(std::vector<Utilization::Point>{
    {Bytes{1e3}, 0.1}, {Bytes{1e5}, 1.0}, {Bytes{1e7}, 0.25}});

TEST(Utilization, IsConstantWithOneNumber) {
  const Utilization u = 0.7;
  EXPECT_TRUE(u.is_constant());
  EXPECT_EQ(u.at(Bytes{0}), 0.7);
  EXPECT_EQ(u.at(Bytes{1e12}), 0.7);
  EXPECT_EQ(to_text(u), "0.7");
}

TEST(Utilization, InterpolatesAndClampsACurve) {
  EXPECT_FALSE(kCurve.is_constant());
  EXPECT_EQ(kCurve.at(Bytes{0}), 0.1);
  EXPECT_EQ(kCurve.at(Bytes{1e3}), 0.1);
  EXPECT_DOUBLE_EQ(kCurve.at(Bytes{1e5}), 1);
  EXPECT_EQ(kCurve.at(Bytes{1e7}), 0.25);
  EXPECT_EQ(kCurve.at(Bytes{1e9}), 0.25);
  EXPECT_EQ(to_text(kCurve), "0.1 to 1 by size");
}

// Halfway in logarithms, the result is the geometric mean of both.
TEST(Utilization, InterpolatesLogarithmically) {
  EXPECT_NEAR(kCurve.at(Bytes{1e4}), std::sqrt(0.1), 1e-12);
  EXPECT_NEAR(kCurve.at(Bytes{1e6}), 0.5, 1e-12);
}

TEST(Utilization, TakesMoreTimeForMoreBytes) {
  double last = 0;
  for (double bytes = 1; bytes < 1e9; bytes *= 1.3) {
    const double now = bytes / kCurve.at(Bytes{bytes});
    EXPECT_GT(now, last) << bytes;
    last = now;
  }
}

TEST(Utilization, GrowsNoFasterThanSizes) {
  EXPECT_TRUE(Utilization::may_follow({Bytes{10}, 0.1}, {Bytes{20}, 0.2}));
  EXPECT_FALSE(Utilization::may_follow({Bytes{10}, 0.1}, {Bytes{20}, 0.3}));
  EXPECT_FALSE(Utilization::may_follow({Bytes{10}, 0.1}, {Bytes{10}, 0.1}));
}

}  // namespace
}  // namespace tandem::machine
