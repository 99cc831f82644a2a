#include "strategies/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace tandem::strategies {
namespace {

std::vector<double> sums(const std::vector<double>& loads, double scale) {
  std::vector<double> out;
  double now = 0;
  for (const double load : loads) out.push_back(now += scale * load);
  return out;
}

double longest_run(const std::vector<std::size_t>& ends, const std::vector<double>& loads) {
  double out = 0;
  std::size_t next = 0;
  for (const auto end : ends) {
    double run = 0;
    for (; next <= end; ++next) run += loads[next];
    out = std::max(out, run);
  }
  return out;
}

// Returns the smallest possible length of the longest run, by dynamic programming.
double least_longest(const std::vector<double>& loads, std::size_t runs) {
  const auto until = sums(loads, 1);
  std::vector<double> least(until);  // by last load, of one run
  for (std::size_t run = 1; run < runs; ++run) {
    for (std::size_t last = loads.size(); last-- > 0;) {
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t before = run - 1; before < last; ++before) {
        best = std::min(best, std::max(least[before], until[last] - until[before]));
      }
      least[last] = best;
    }
  }
  return least.back();
}

// Layers of two kinds alternate, with operations of any batch: sums beyond 2^53 are rounded.
TEST(Stages, DoNotDependOnTheBatch) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t layers = 3 + random() % 40;
    const std::size_t runs = 2 + random() % (layers - 2);
    std::vector<double> loads;
    const auto head = static_cast<double>(random() % 5);
    const auto attention = 1 + static_cast<double>(random() % 7);
    for (std::size_t l = 0; l < layers; ++l) {
      loads.push_back(attention);
      loads.push_back(3);
    }
    loads.back() += head;
    const std::vector<double> speeds(runs, 1);
    const auto ends = balance_ends(sums(loads, 1), speeds);
    EXPECT_EQ(longest_run(ends, loads), least_longest(loads, runs)) << "round " << round;
    for (int i = 0; i < 3; ++i) {
      const auto scale = std::exp2(static_cast<double>(random() % 60)) / 3 + 0.1;
      EXPECT_EQ(balance_ends(sums(loads, scale), speeds), ends)
          << "round " << round << ", times " << scale;
    }
  }
}

}  // namespace
}  // namespace tandem::strategies
