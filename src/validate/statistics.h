// Statistics of predictions against measurements. All take pairs in which both are above 0.
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

// Mean of |predicted / measured - 1|; 0 of nothing.
double mean_absolute_error(std::span<const Pair> pairs);
// Mean of predicted / measured - 1.
double bias(std::span<const Pair> pairs);

// The correlation of ranks, equal values sharing theirs. Nothing where either side is constant.
std::optional<double> spearman(std::span<const Pair> pairs);

// The constant that, times every `predicted`, makes the mean absolute error least.
double best_constant(std::span<const Pair> pairs);
// The same pairs, every prediction times the constant that is best for the others.
std::vector<Pair> scaled_by_best_constant_of_others(std::span<const Pair> pairs);

// The 95 % interval of the mean of these by bootstrap: of that of as many, drawn with
// replacement. The same numbers have the same interval.
struct Interval {
  double low;
  double high;
};
Interval bootstrap_of_mean(std::span<const double> values);

// What following the predictions costs: the measured time of the pair predicted the fastest, over
// the least measured, minus 1.
double regret(std::span<const Pair> pairs);

}  // namespace tandem::validate
