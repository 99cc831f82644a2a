// Robust nonlinear least squares over a few numbers within bounds: the Levenberg-Marquardt method
// with finite differences. The loss is 2 (sqrt(1 + r^2) - 1), quadratic for small residuals and
// linear for large ones. Deterministic.
#pragma once

#include <functional>
#include <vector>

namespace tandem::validate {

struct CoordinateBounds {
  double low;
  double high;
};

struct LeastSquares {
  // Returns the residuals at x; their number is constant.
  std::function<std::vector<double>(const std::vector<double>&)> residuals;
  std::vector<CoordinateBounds> bounds;  // one for each coordinate
  double scale = 0.1;                    // residuals above it count as large
  double step = 0.02;                    // of the finite differences
  int iterations = 15;
};

// Minimizes the sum of losses from `start`, which must be within the bounds. Returns the best point
// found.
std::vector<double> minimize(const LeastSquares& problem, std::vector<double> start);

// Solves the symmetric, positive definite system a x = b; `a` is row-major.
//   a {4, 2, 2, 3}, b {8, 7} -> {1.25, 1.5}
std::vector<double> solve(std::vector<double> a, std::vector<double> b);

}  // namespace tandem::validate
