// Compares matmuls, by whichever library the CPU uses, with those in double precision.
#include "runtime/matmul.h"

#include <gtest/gtest.h>

#include "runtime/aten.h"

namespace tandem::runtime {
namespace {

// Returns a matrix of these sizes that is row-major or column-major. With a gap it is part of a
// larger one.
at::Tensor matrix(std::int64_t rows, std::int64_t columns, bool by_columns, std::int64_t gap) {
  auto out = by_columns ? at::rand({columns, rows + gap}).narrow(1, 0, rows).t()
                        : at::rand({rows, columns + gap}).narrow(1, 0, columns);
  return out.sub_(0.5);
}

void expect_near(const at::Tensor& got, const at::Tensor& want) {
  ASSERT_EQ(got.sizes(), want.sizes());
  const auto size = want.abs().max().item<double>();
  EXPECT_LE((got.to(at::kDouble) - want).abs().max().item<double>(), 1e-5 * size);
}

TEST(Matmul, MatchesFp64ForAllStrides) {
  at::manual_seed(3);
  constexpr std::array<std::array<std::int64_t, 3>, 6> kShapes = {
      {{64, 96, 80}, {1, 700, 600}, {70, 1030, 33}, {3, 4, 5}, {16, 300, 130}, {64, 512, 128}}};
  // Rows, depth, columns
  for (const auto& [rows, depth, columns] : kShapes) {
    for (int lie = 0; lie < 8; ++lie) {
      const auto a = matrix(rows, depth, (lie & 1) != 0, (lie & 4) != 0 ? 7 : 0);
      const auto b = matrix(depth, columns, (lie & 2) != 0, (lie & 4) != 0 ? 5 : 0);
      const auto bias = at::rand({columns});
      const auto want = at::mm(a.to(at::kDouble), b.to(at::kDouble));
      expect_near(compute_matmul(a, b), want);
      expect_near(compute_matmul(a, b, bias), want + bias);
      auto sum = at::rand({rows, columns});
      const auto summed = sum.to(at::kDouble) - 0.25 * want;
      add_matmul(sum, a, b, -0.25);
      expect_near(sum, summed);
    }
  }
}

// A row that is expanded to many is not a matrix in memory.
TEST(Matmul, AcceptsExpandedMatrices) {
  const auto a = at::rand({1, 100}).expand({90, 100});
  const auto b = at::rand({100, 1}).expand({100, 80});
  expect_near(compute_matmul(a, b), at::mm(a.to(at::kDouble), b.to(at::kDouble)));
}

// Devices that compute the same get the same result.
TEST(Matmul, IsDeterministic) {
  const auto a = at::rand({64, 512});
  const auto b = at::rand({300, 512}).t();
  EXPECT_TRUE(compute_matmul(a, b).equal(compute_matmul(a, b)));
}

}  // namespace
}  // namespace tandem::runtime
