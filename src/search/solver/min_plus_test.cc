// Compares compute_min_plus with the sum of all tables, state by state.
#include "search/solver/min_plus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "search/solver/min_plus_block.h"

namespace tandem::search {
namespace {

Table random_table(std::size_t rows, std::size_t cols, std::mt19937_64& random) {
  Table out{random(), rows, cols, {}};
  // Few values, so that many are equal. Some states exclude each other.
  std::uniform_int_distribution<int> value(0, 9);
  for (std::size_t i = 0; i < rows * cols; ++i) {
    const int n = value(random);
    out.cost.push_back(n == 9 ? kImpossible : 0.1F * static_cast<float>(n));
  }
  return out;
}

struct Best {
  float cost = kImpossible;
  std::uint32_t state = 0;
};

// Returns the first best state of one table entry. `cost_of` gives the cost of each state.
Best find_best(std::size_t states, const std::function<float(std::size_t)>& cost_of) {
  Best out;
  for (std::size_t v = 0; v < states; ++v) {
    const float cost = cost_of(v);
    if (cost < out.cost) out = {cost, static_cast<std::uint32_t>(v)};
  }
  return out;
}

TEST(MinPlus, FindsTheFirstMinimumOfAllStates) {
  std::mt19937_64 random(7);
  for (std::size_t cols : {1, 2, 15, 16, 17, 32, 45}) {
    for (std::size_t states : {1, 3, 4, 31}) {
      SCOPED_TRACE(testing::Message() << states << " states, " << cols << " columns");
      const auto left = random_table(5, states, random);
      const auto unary = random_table(states, 1, random);
      const auto right = random_table(states, cols, random);
      const auto made = compute_min_plus(1, left, unary, right);
      ASSERT_EQ(made->table->rows, 5U);
      ASSERT_EQ(made->table->cols, cols);
      for (std::size_t a = 0; a < 5; ++a) {
        for (std::size_t c = 0; c < cols; ++c) {
          const auto expected = find_best(states, [&](std::size_t v) {
            return (unary.at(v) + left.at(a, v)) + right.at(v, c);
          });
          EXPECT_EQ(made->table->at(a, c), expected.cost);
          EXPECT_EQ(made->best[a * cols + c], expected.state);
        }
      }
    }
  }
}

// The block has 16 columns and 24 states, the last three of them padding. Bounds are as loose as
// for a whole table.
TEST(MinPlus, FindsTheFirstMinimumOfABlockInEveryKernel) {
  std::mt19937_64 random(9);
  constexpr std::size_t kStates = 24;
  for (const auto* kernels : {&get_block_kernels(), &get_portable_block_kernels()}) {
    const auto a = random_table(kStates, kBlock, random);
    const auto b = random_table(kStates, kBlock, random);
    auto base = random_table(kStates, 1, random).cost;
    std::fill(base.end() - 3, base.end(), 2 * kImpossible);
    const std::vector<BlockAddend> addends = {{a.cost.data(), kBlock}, {b.cost.data(), kBlock}};
    std::vector<float> least;
    std::vector<float> most;
    for (std::size_t v = 0; v < kStates; ++v) {
      const auto of_a = kernels->bounds(a.cost.data() + v * kBlock);
      const auto of_b = kernels->bounds(b.cost.data() + v * kBlock);
      least.push_back(of_a.least + of_b.least);
      most.push_back(of_a.most + of_b.most);
      EXPECT_EQ(kernels->least(a.cost.data() + v * kBlock, 13),
                *std::min_element(a.cost.begin() + static_cast<std::ptrdiff_t>(v * kBlock),
                                  a.cost.begin() + static_cast<std::ptrdiff_t>(v * kBlock + 13)));
    }
    std::vector<float> cost(kBlock);
    std::vector<std::uint32_t> best(kBlock);
    kernels->minimize(
        {base.data(), least.data(), most.data(), kStates, addends.data(), addends.size()},
        cost.data(), best.data());
    for (std::size_t c = 0; c < kBlock; ++c) {
      const auto expected =
          find_best(kStates, [&](std::size_t v) { return base[v] + (a.at(v, c) + b.at(v, c)); });
      EXPECT_EQ(cost[c], expected.cost);
      EXPECT_EQ(best[c], expected.state);
    }
  }
}

// Eliminates v over four neighbours a, b, c, d: one table of v and a, one of a, v and c, and two
// with d.
TEST(MinPlus, AddsTablesOfSeveralVariables) {
  std::mt19937_64 random(8);
  constexpr std::size_t kStates = 13;
  constexpr std::size_t kA = 3;
  constexpr std::size_t kB = 2;
  constexpr std::size_t kC = 4;
  for (std::size_t d : {5, 16, 39}) {
    const auto unary = random_table(kStates, 1, random);
    const auto of_a = random_table(kStates, kA, random);
    const auto of_a_c = random_table(kA * kStates, kC, random);
    const auto of_d = random_table(kStates, d, random);
    const auto of_b_d = random_table(kB * kStates, d, random);
    const auto made = compute_min_plus(1, unary,
                                       {{&of_a, kA, {1, 0, 0, 0}},
                                        {&of_a_c, kC, {kStates * kC, 0, 1, 0}},
                                        {&of_d, d, {0, 0, 0, 1}},
                                        {&of_b_d, d, {0, kStates * d, 0, 1}}},
                                       {kA, kB, kC, d});
    ASSERT_EQ(made->table->cost.size(), kA * kB * kC * d);
    for (std::size_t i = 0; i < made->best.size(); ++i) {
      const auto at_d = i % d;
      const auto c = i / d % kC;
      const auto b = i / d / kC % kB;
      const auto a = i / d / kC / kB;
      const auto expected = find_best(kStates, [&](std::size_t v) {
        return ((unary.at(v) + of_a.at(v, a)) + of_a_c.at(a * kStates + v, c)) +
               (of_d.at(v, at_d) + of_b_d.at(b * kStates + v, at_d));
      });
      EXPECT_EQ(made->table->cost[i], expected.cost);
      EXPECT_EQ(made->best[i], expected.state);
    }
  }
}

}  // namespace
}  // namespace tandem::search
