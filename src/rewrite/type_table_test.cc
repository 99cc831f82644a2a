#include "rewrite/type_table.h"

#include <gtest/gtest.h>

#include "ops/registry.h"

namespace tandem::rewrite {
namespace {

TensorType matrix(std::int64_t rows, std::int64_t columns) {
  TensorType out;
  out.shape = ParallelShape({rows, columns});
  return out;
}

// Cached results equal those of the operator, even after the cache was cleared.
TEST(TypeTable, AnswersAfterEviction) {
  TypeTable table(1024);
  const auto matmul = ops::parse_op(ops::find_op("matmul"), {});
  constexpr std::int64_t kSizes = 40;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t m = 1; m <= kSizes; ++m) {
      for (std::int64_t n = 1; n <= kSizes; ++n) {
        const auto left = matrix(m, n);
        for (const auto& right : {matrix(n, m), matrix(n + 1, m)}) {
          const std::vector<TypeTable::TypeId> inputs = {table.intern(left), table.intern(right)};
          const auto result = table.infer_result_type(matmul, inputs);
          if (right.shape.sizes[0] != n) {
            ASSERT_EQ(result, TypeTable::kNone) << m << " " << n;
          } else {
            ASSERT_EQ(table.type(result), matrix(m, m)) << m << " " << n;
          }
        }
      }
    }
  }
}

TEST(TypeTable, NumbersEachTypeOnce) {
  TypeTable table;
  const auto a = table.intern(matrix(2, 3));
  EXPECT_NE(a, table.intern(matrix(3, 2)));
  EXPECT_EQ(a, table.intern(matrix(2, 3)));
}

}  // namespace
}  // namespace tandem::rewrite
