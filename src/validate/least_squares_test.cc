// Problems with known solutions.
#include "validate/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::validate {
namespace {

using Vector = std::vector<double>;

TEST(LeastSquares, SolvesEquations) {
  const auto x = solve({4, 2, 2, 3}, {10, 9});  // 4x + 2y = 10, 2x + 3y = 9
  EXPECT_NEAR(x[0], 1.5, 1e-12);
  EXPECT_NEAR(x[1], 2, 1e-12);
}

// Fits y = a + b t to points on a line and one outlier, which changes the result little.
TEST(LeastSquares, IgnoresAnOutlier) {
  LeastSquares problem;
  problem.iterations = 100;
  problem.bounds = {{-100, 100}, {-100, 100}};
  problem.residuals = [](const Vector& x) {
    Vector out;
    for (int t = 0; t < 20; ++t) out.push_back(x[0] + x[1] * t - (3 + 0.5 * t));
    out.push_back(x[0] + x[1] * 10 - 500);
    return out;
  };
  const auto x = minimize(problem, {0, 0});
  EXPECT_NEAR(x[0], 3, 0.05);
  EXPECT_NEAR(x[1], 0.5, 0.01);
}

// Rosenbrock's valley, with its minimum at (1, 1).
TEST(LeastSquares, FollowsAValley) {
  LeastSquares problem;
  problem.iterations = 300;
  problem.scale = 10;
  problem.step = 1e-6;
  problem.bounds = {{-5, 5}, {-5, 5}};
  problem.residuals = [](const Vector& x) { return Vector{1 - x[0], 10 * (x[1] - x[0] * x[0])}; };
  const auto x = minimize(problem, {-1.2, 1});
  EXPECT_NEAR(x[0], 1, 1e-3);
  EXPECT_NEAR(x[1], 1, 1e-3);
}

TEST(LeastSquares, StaysWithinBounds) {
  LeastSquares problem;
  problem.bounds = {{-1, 1}, {-5, 5}};
  problem.residuals = [](const Vector& x) {
    EXPECT_GE(x[0], -1);
    EXPECT_LE(x[0], 1);
    return Vector{x[0] - 3, x[1] - 2};
  };
  const auto x = minimize(problem, {0, 0});
  EXPECT_NEAR(x[0], 1, 1e-9);
  EXPECT_NEAR(x[1], 2, 1e-3);
  EXPECT_TRUE(minimize({}, {}).empty());
}

}  // namespace
}  // namespace tandem::validate
