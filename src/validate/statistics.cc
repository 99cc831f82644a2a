#include "validate/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/random.h"

namespace tandem::validate {

namespace {

// Returns the ranks of `values` from 1; equal values get the mean of their ranks.
std::vector<double> compute_ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> out(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    auto end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const auto rank = static_cast<double>(begin + end + 1) / 2;
    for (; begin < end; ++begin) out[order[begin]] = rank;
  }
  return out;
}

// The error |c p/m - 1| equals (p/m) |c - m/p|, so the best c is the median of m/p with weights
// p/m.
struct Weighted {
  double ratio;   // measured over predicted
  double weight;  // its inverse
  std::size_t pair;
};

std::vector<Weighted> sort_by_ratio(std::span<const Pair> pairs) {
  std::vector<Weighted> out;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto ratio = pairs[i].measured / pairs[i].predicted;
    out.push_back({ratio, 1 / ratio, i});
  }
  std::ranges::stable_sort(out, {}, &Weighted::ratio);
  return out;
}

double compute_weighted_median(const std::vector<Weighted>& sorted, std::size_t without) {
  double total = 0;
  for (const auto& w : sorted) total += w.pair == without ? 0 : w.weight;
  double below = 0;
  for (const auto& w : sorted) {
    if (w.pair == without) continue;
    below += w.weight;
    if (2 * below >= total) return w.ratio;
  }
  return 1;
}

}  // namespace

double mean_absolute_error(std::span<const Pair> pairs) {
  double sum = 0;
  for (const auto& p : pairs) sum += std::abs(p.predicted / p.measured - 1);
  return pairs.empty() ? 0 : sum / static_cast<double>(pairs.size());
}

double bias(std::span<const Pair> pairs) {
  double sum = 0;
  for (const auto& p : pairs) sum += p.predicted / p.measured - 1;
  return pairs.empty() ? 0 : sum / static_cast<double>(pairs.size());
}

std::optional<double> spearman(std::span<const Pair> pairs) {
  std::vector<double> measured;
  std::vector<double> predicted;
  for (const auto& p : pairs) {
    measured.push_back(p.measured);
    predicted.push_back(p.predicted);
  }
  const auto a = compute_ranks(measured);
  const auto b = compute_ranks(predicted);
  const auto mean = (static_cast<double>(pairs.size()) + 1) / 2;
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  if (aa == 0 || bb == 0) return std::nullopt;
  return ab / std::sqrt(aa * bb);
}

double find_best_constant(std::span<const Pair> pairs) {
  return compute_weighted_median(sort_by_ratio(pairs), pairs.size());
}

std::vector<Pair> scale_leave_one_out(std::span<const Pair> pairs) {
  const auto sorted = sort_by_ratio(pairs);
  std::vector<Pair> out(pairs.begin(), pairs.end());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].predicted *= compute_weighted_median(sorted, i);
  return out;
}

Interval bootstrap_mean(std::span<const double> values) {
  CHECK(!values.empty());
  constexpr std::size_t kDraws = 1000;
  constexpr std::uint64_t kSeed = 1;
  const auto n = values.size();
  std::vector<double> means(kDraws);
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto at = draw_uniform(kSeed, 0, draw, i) * static_cast<double>(n);
      sum += values[static_cast<std::size_t>(at)];
    }
    means[draw] = sum / static_cast<double>(n);
  }
  std::ranges::sort(means);
  return {means[kDraws / 40], means[kDraws - 1 - kDraws / 40]};
}

double regret(std::span<const Pair> pairs) {
  CHECK(!pairs.empty());
  const auto pick = std::ranges::min_element(pairs, {}, &Pair::predicted);
  const auto best = std::ranges::min_element(pairs, {}, &Pair::measured);
  return pick->measured / best->measured - 1;
}

}  // namespace tandem::validate
