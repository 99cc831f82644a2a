#include "validate/least_squares.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem::validate {

namespace {

double compute_loss(const std::vector<double>& residuals, double scale) {
  double sum = 0;
  for (auto r : residuals) sum += 2 * (std::sqrt(1 + r / scale * (r / scale)) - 1);
  return sum;
}

// Normal equations of the weighted residuals, where the derivative of the loss at r is w r.
struct Normal {
  std::vector<double> matrix;    // J^T W J
  std::vector<double> gradient;  // J^T W r
};

using Columns = std::vector<std::vector<double>>;

Normal make_normal_equations(const Columns& jacobian, const std::vector<double>& residuals,
                             double scale) {
  const auto n = jacobian.size();
  Normal out{std::vector<double>(n * n), std::vector<double>(n)};
  for (std::size_t r = 0; r < residuals.size(); ++r) {
    const auto weight = 1 / std::sqrt(1 + residuals[r] / scale * (residuals[r] / scale));
    for (std::size_t i = 0; i < n; ++i) {
      out.gradient[i] += weight * jacobian[i][r] * residuals[r];
      for (std::size_t j = 0; j <= i; ++j) {
        out.matrix[i * n + j] += weight * jacobian[i][r] * jacobian[j][r];
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) out.matrix[i * n + j] = out.matrix[j * n + i];
  }
  return out;
}

class Minimizer {
 public:
  Minimizer(const LeastSquares& problem, std::vector<double> start)
      : p_(problem),
        x_(std::move(start)),
        r_(p_.residuals(x_)),
        loss_(compute_loss(r_, p_.scale)) {}

  std::vector<double> run() {
    double damping = 1e-2;
    for (int i = 0; i < p_.iterations; ++i) {
      const auto before = loss_;
      const auto equations = make_normal_equations(compute_jacobian(), r_, p_.scale);
      bool found = false;
      for (int tries = 0; tries < 6 && !found; ++tries) {
        found = try_step(equations, damping);
        damping *= found ? 0.3 : 5;
      }
      if (!found || before - loss_ < 1e-6 * before) break;
    }
    return std::move(x_);
  }

 private:
  // Returns the Jacobian by finite differences. Steps inwards at a bound.
  Columns compute_jacobian() const {
    Columns out;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      auto moved = x_;
      const auto step = x_[i] + p_.step <= p_.bounds[i].high ? p_.step : -p_.step;
      moved[i] += step;
      auto column = p_.residuals(moved);
      for (std::size_t r = 0; r < column.size(); ++r) column[r] = (column[r] - r_[r]) / step;
      out.push_back(std::move(column));
    }
    return out;
  }

  bool try_step(const Normal& equations, double damping) {
    const auto n = x_.size();
    auto matrix = equations.matrix;
    auto right = equations.gradient;
    for (std::size_t i = 0; i < n; ++i) {
      // A coordinate stays at a bound that the gradient pushes against.
      const bool stays = (x_[i] <= p_.bounds[i].low && right[i] > 0) ||
                         (x_[i] >= p_.bounds[i].high && right[i] < 0);
      if (stays) {
        for (std::size_t j = 0; j < n; ++j) matrix[i * n + j] = matrix[j * n + i] = 0;
        right[i] = 0;
      }
      matrix[i * n + i] = matrix[i * n + i] * (1 + damping) + 1e-9 + (stays ? 1 : 0);
    }
    const auto step = solve(std::move(matrix), std::move(right));
    auto moved = x_;
    for (std::size_t i = 0; i < n; ++i) {
      constexpr double kLongest = 1;  // at most a factor of e per step
      moved[i] = std::clamp(x_[i] - std::clamp(step[i], -kLongest, kLongest), p_.bounds[i].low,
                            p_.bounds[i].high);
    }
    auto residuals = p_.residuals(moved);
    const auto next = compute_loss(residuals, p_.scale);
    if (!(next < loss_)) return false;
    x_ = std::move(moved);
    r_ = std::move(residuals);
    loss_ = next;
    return true;
  }

  const LeastSquares& p_;
  std::vector<double> x_;
  std::vector<double> r_;
  double loss_;
};

}  // namespace

std::vector<double> minimize(const LeastSquares& problem, std::vector<double> start) {
  CHECK(problem.bounds.size() == start.size(), problem.bounds.size(), start.size());
  if (start.empty()) return start;
  return Minimizer(problem, std::move(start)).run();
}

// Uses Cholesky's method.
std::vector<double> solve(std::vector<double> a, std::vector<double> b) {
  const auto n = b.size();
  CHECK(a.size() == n * n, a.size(), n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / a[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

}  // namespace tandem::validate
