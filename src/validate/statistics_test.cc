// Compares with closed forms, and with plain sums and searches.
#include "validate/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tandem::validate {
namespace {

std::vector<Pair> random_pairs(std::uint64_t seed, std::size_t n) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> draw(0, 1);
  std::vector<Pair> out;
  for (std::size_t i = 0; i < n; ++i) {
    const auto measured = draw(random);
    out.push_back({measured, measured * draw(random)});
  }
  return out;
}

TEST(Statistics, ComputesErrorsOfTwoPairs) {
  const std::vector<Pair> pairs = {{2, 3}, {4, 3}};
  EXPECT_DOUBLE_EQ(mean_absolute_error(pairs), (0.5 + 0.25) / 2);
  EXPECT_DOUBLE_EQ(bias(pairs), (0.5 - 0.25) / 2);
  EXPECT_EQ(mean_absolute_error({}), 0);
}

TEST(Statistics, ComputesSpearmanOfOrders) {
  const std::vector<Pair> same = {{1, 10}, {2, 1000}, {3, 1001}};
  EXPECT_DOUBLE_EQ(spearman(same).value(), 1);
  const std::vector<Pair> reversed = {{1, 3}, {2, 2}, {3, 1}};
  EXPECT_DOUBLE_EQ(spearman(reversed).value(), -1);
  const std::vector<Pair> constant = {{1, 5}, {2, 5}};
  EXPECT_FALSE(spearman(constant).has_value());
  EXPECT_FALSE(spearman({}).has_value());
}

// Without equal values, rho = 1 - 6 sum d^2 / (n (n^2 - 1)), where d are the rank differences.
TEST(Statistics, MatchesTheClassicalSpearmanFormula) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto pairs = random_pairs(seed, 12);
    const auto rank = [&](double Pair::*side, double value) {
      return std::ranges::count_if(pairs, [&](const Pair& p) { return p.*side < value; });
    };
    double sum = 0;
    for (const auto& p : pairs) {
      const auto d = static_cast<double>(rank(&Pair::measured, p.measured) -
                                         rank(&Pair::predicted, p.predicted));
      sum += d * d;
    }
    EXPECT_NEAR(spearman(pairs).value(), 1 - 6 * sum / (12 * (144 - 1)), 1e-12) << "seed " << seed;
  }
}

TEST(Statistics, SharesRanksBetweenEqualValues) {
  // Ranks 1.5 1.5 3 against 1 2 3, by Pearson's formula.
  const std::vector<Pair> pairs = {{7, 1}, {7, 2}, {8, 3}};
  EXPECT_NEAR(spearman(pairs).value(), 1.5 / std::sqrt(1.5 * 2), 1e-12);
}

// No constant on a fine grid or at a kink is better.
TEST(Statistics, FindsTheBestConstant) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto pairs = random_pairs(seed, 7);
    const auto error_with = [&](double constant) {
      auto scaled = pairs;
      for (auto& p : scaled) p.predicted *= constant;
      return mean_absolute_error(scaled);
    };
    const auto best = error_with(find_best_constant(pairs));
    for (double c = 0.01; c < 20; c *= 1.01) EXPECT_LE(best, error_with(c) + 1e-12) << seed;
    for (const auto& p : pairs) {
      EXPECT_LE(best, error_with(p.measured / p.predicted) + 1e-12) << seed;
    }
  }
}

TEST(Statistics, FindsTheBestConstantOfTheOthers) {
  const auto pairs = random_pairs(3, 9);
  const auto scaled = scale_leave_one_out(pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto others = pairs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_DOUBLE_EQ(scaled[i].predicted, pairs[i].predicted * find_best_constant(others));
    EXPECT_EQ(scaled[i].measured, pairs[i].measured);
  }
}

// The mean of n numbers of deviation s is within 1.96 s / sqrt(n) in 95 of 100 cases.
TEST(Statistics, BootstrapsTheNormalInterval) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> draw(10, 2);
  std::vector<double> values(400);
  for (auto& v : values) v = draw(random);
  const auto [low, high] = bootstrap_mean(values);
  EXPECT_NEAR(high - low, 2 * 1.96 * 2 / 20, 0.05);
  EXPECT_NEAR((high + low) / 2, 10, 0.25);
  const auto again = bootstrap_mean(values);
  EXPECT_EQ(low, again.low);
  EXPECT_EQ(high, again.high);
  const std::vector<double> one = {3};
  EXPECT_EQ(bootstrap_mean(one).low, 3);
  EXPECT_EQ(bootstrap_mean(one).high, 3);
}

TEST(Statistics, ComputesTheRegretOfAChoice) {
  const std::vector<Pair> pairs = {{10, 5}, {8, 6}, {12, 7}};
  EXPECT_DOUBLE_EQ(regret(pairs), 10.0 / 8 - 1);
  const std::vector<Pair> right = {{10, 5}, {12, 6}};
  EXPECT_EQ(regret(right), 0);
}

}  // namespace
}  // namespace tandem::validate
