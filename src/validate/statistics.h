// Statistics of predictions against measurements. All functions take pairs of positive numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tandem::validate {

struct Pair {
  double measured;
  double predicted;
};

// Returns the mean of |predicted / measured - 1|; 0 for no pairs.
double mean_absolute_error(std::span<const Pair> pairs);
// Returns the mean of predicted / measured - 1.
double bias(std::span<const Pair> pairs);

// Returns the rank correlation, with mean ranks for equal values; nullopt if either side is
// constant.
std::optional<double> spearman(std::span<const Pair> pairs);

// Returns the constant that, multiplied by every `predicted`, minimizes the mean absolute error.
//   measured 10, 12, 10; predicted 5, 6, 20 -> 0.5: error (0.75 + 0.75 + 0) / 3; at 2 it is 1
double find_best_constant(std::span<const Pair> pairs);
// Returns the pairs, each prediction multiplied by the constant that is best for the others.
std::vector<Pair> scale_leave_one_out(std::span<const Pair> pairs);

// Bootstrap confidence interval (95 %) of a mean: the interval of means of samples drawn with
// replacement. Deterministic.
struct Interval {
  double low;
  double high;
};
Interval bootstrap_mean(std::span<const double> values);

// Returns the cost of following the predictions: the measured time of the pair with the fastest
// prediction, divided by the fastest measured time, minus 1.
//   measured 10 and 8, predicted 12 and 13 -> 10 / 8 - 1 = 0.25
double regret(std::span<const Pair> pairs);

}  // namespace tandem::validate
