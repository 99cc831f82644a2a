#include "strategies/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/random_choices_test_support.h"

namespace tandem::strategies {
namespace {

using machine::Digits;

// Returns the load of the fullest device.
double fullest(const std::vector<Load>& loads, const std::vector<std::int64_t>& ranks,
               const Digits& digits) {
  std::vector<double> held(static_cast<std::size_t>(digits.devices()));
  for (std::int64_t d = 0; d < digits.devices(); ++d) {
    for (std::size_t i = 0; i < loads.size(); ++i) {
      if (digits.rank_in_group(d, loads[i].whole) == ranks[i]) {
        held[static_cast<std::size_t>(d)] += loads[i].bytes.value;
      }
    }
  }
  return *std::ranges::max_element(held);
}

double best(const std::vector<Load>& loads, const Digits& digits) {
  std::vector<std::int64_t> ranks(loads.size(), 0);
  double least = fullest(loads, ranks, digits);
  for (std::size_t i = 0; i < ranks.size();) {
    if (++ranks[i] == digits.group_size(loads[i].whole)) {
      ranks[i++] = 0;
      continue;
    }
    least = std::min(least, fullest(loads, ranks, digits));
    i = 0;
  }
  return least;
}

TEST(Packing, IsWithinAThirdOfTheBest) {
  const auto digits = plan::make_digits({3});
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Load> loads;
    for (int i = 0; i < 7; ++i) {
      loads.push_back({Bytes{1.0 + static_cast<double>(random() % 20)}, digits.all()});
    }
    const auto ranks = pack(loads, digits);
    EXPECT_LE(fullest(loads, ranks, digits), 4.0 / 3 * best(loads, digits)) << "seed " << seed;
  }
}

// A table that one level splits is whole over the other level only, so it is on two of four
// devices.
TEST(Packing, CountsShardsOverTheOtherDigits) {
  const auto digits = plan::make_digits({2, 2});
  const std::vector<Load> loads = {
      {Bytes{8}, digits.all()}, {Bytes{4}, 0b01}, {Bytes{4}, digits.all()}, {Bytes{4}, 0b01}};
  const auto ranks = pack(loads, digits);
  EXPECT_EQ(ranks[0], 0);
  EXPECT_EQ(ranks[1], 1);
  EXPECT_EQ(ranks[2], 1);
  EXPECT_EQ(ranks[3], 1);
  EXPECT_EQ(fullest(loads, ranks, digits), 8);
}

}  // namespace
}  // namespace tandem::strategies
