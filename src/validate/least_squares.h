// Robust nonlinear least squares over a few numbers within bounds: Levenberg and Marquardt's
// method with differences for derivatives, and the loss 2 (sqrt(1 + r^2) - 1), which is quadratic
// for small residuals and linear for large ones. Deterministic.
#pragma once

#include <functional>
#include <vector>

namespace tandem::validate {

struct Bounds {
  double low;
  double high;
};

struct LeastSquares {
  // The residuals at x, always as many.
  std::function<std::vector<double>(const std::vector<double>&)> residuals;
  std::vector<Bounds> bounds;  // of every coordinate
  double scale = 0.1;          // residuals beyond count as large
  double step = 0.02;          // of the differences
  int iterations = 15;
};

// From `start`, which is within the bounds: where the sum of losses is least, as far as it is
// found.
std::vector<double> minimize(const LeastSquares& problem, std::vector<double> start);

// The solution of the symmetric, positive definite a x = b; a by rows.
std::vector<double> solve(std::vector<double> a, std::vector<double> b);

}  // namespace tandem::validate
