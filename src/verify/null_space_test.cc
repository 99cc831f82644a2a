#include "verify/null_space.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace tandem::verify {
namespace {

std::int64_t dot(const Vector& a, const Vector& b) {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out += a[i] * b[i];
  return out;
}

// Returns the rank by elimination in a prime field. It equals the rank over the rationals, as the
// numbers are small.
std::size_t rank(std::vector<Vector> rows, std::size_t columns) {
  constexpr std::int64_t kPrime = 1'000'003;
  const auto inverse = [](std::int64_t a) {
    std::int64_t out = 1;
    for (auto e = kPrime - 2; e > 0; e /= 2, a = a * a % kPrime) {
      if (e % 2 == 1) out = out * a % kPrime;
    }
    return out;
  };
  std::size_t used = 0;
  for (std::size_t c = 0; c < columns && used < rows.size(); ++c) {
    for (std::size_t r = used; r < rows.size(); ++r) {
      if (rows[r][c] % kPrime == 0) continue;
      std::swap(rows[used], rows[r]);
      break;
    }
    const auto pivot = (rows[used][c] % kPrime + kPrime) % kPrime;
    if (pivot == 0) continue;
    for (std::size_t r = used + 1; r < rows.size(); ++r) {
      const auto times = (rows[r][c] % kPrime + kPrime) % kPrime * inverse(pivot) % kPrime;
      for (std::size_t i = 0; i < columns; ++i) {
        rows[r][i] = (rows[r][i] - times * (rows[used][i] % kPrime)) % kPrime;
      }
    }
    ++used;
  }
  return used;
}

TEST(NullSpace, SolvesAndIsComplete) {
  for (Hash seed = 0; seed < 300; ++seed) {
    const auto number = [&, n = Hash{0}](Hash below) mutable {
      return hash_combine(seed, n++) % below;
    };
    const std::size_t columns = 1 + seed % 6;
    std::vector<Vector> rows(seed % 5, Vector(columns));
    auto next = number;
    for (auto& row : rows) {
      for (auto& n : row) n = static_cast<std::int64_t>(next(5)) - 2;
    }
    const auto basis = compute_null_space(rows, columns);
    EXPECT_EQ(basis.size() + rank(rows, columns), columns) << "seed " << seed;
    EXPECT_EQ(rank(basis, columns), basis.size()) << "seed " << seed;
    for (const auto& x : basis) {
      for (const auto& row : rows) EXPECT_EQ(dot(row, x), 0) << "seed " << seed;
    }
  }
}

TEST(NullSpace, ComputesDependentFromFreeVariables) {
  // w = x + y
  EXPECT_EQ(compute_null_space({{1, 1, -1}}, 3), (std::vector<Vector>{{1, 0, 1}, {0, 1, 1}}));
}

}  // namespace
}  // namespace tandem::verify
