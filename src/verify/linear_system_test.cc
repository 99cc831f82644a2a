#include "verify/linear_system.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::verify {
namespace {

using Affine = LinearSystem::AffineForm;

Affine constant(std::int64_t n) { return {.parts = {}, .constant = n}; }

TEST(LinearSystem, RejectsSystemsThatNeedNegativeNumbers) {
  LinearSystem system;
  const auto x = system.add_variable();
  const auto y = system.add_variable();
  system.add_equation(x, Affine(y).add(constant(1)));  // x = y + 1
  EXPECT_TRUE(system.may_have_solution());
  const auto size = system.size();
  system.add_equation(x, constant(0));
  EXPECT_FALSE(system.may_have_solution());
  system.shrink(size);
  EXPECT_TRUE(system.may_have_solution());
  system.add_equation(y, Affine(x).add(x));  // y = 2 x
  EXPECT_FALSE(system.may_have_solution());
}

// Compares with every solution up to 6, for two equations in three variables.
TEST(LinearSystem, EqualsBruteForce) {
  std::mt19937 random(7);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  int without = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    LinearSystem system;
    const Affine variables[] = {system.add_variable(), system.add_variable(),
                                system.add_variable()};
    std::int64_t numbers[2][4];
    for (auto& row : numbers) {
      Affine sum;
      for (int i = 0; i < 3; ++i) sum.add(variables[i], row[i] = draw(-2, 2));
      system.add_equation(sum, constant(row[3] = draw(-3, 3)));
    }
    bool found = false;
    for (int x = 0; x <= 6; ++x) {
      for (int y = 0; y <= 6; ++y) {
        for (int z = 0; z <= 6; ++z) {
          found = found || std::ranges::all_of(numbers, [&](const auto& row) {
                    return row[0] * x + row[1] * y + row[2] * z == row[3];
                  });
        }
      }
    }
    const bool may = system.may_have_solution();
    EXPECT_TRUE(may || !found) << trial;
    without += may ? 0 : 1;
  }
  EXPECT_GT(without, 400);
  EXPECT_LT(without, 1600);
}

}  // namespace
}  // namespace tandem::verify
