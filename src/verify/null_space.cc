#include "verify/null_space.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tandem::verify {

namespace {

void divide_by_gcd(Vector& row) {
  std::int64_t divisor = 0;
  for (auto n : row) divisor = std::gcd(divisor, n);
  if (divisor < 2) return;
  for (auto& n : row) n /= divisor;
}

// Computes row -= pivot_row * (row[column] / pivot_row[column]), scaled so that it stays integral.
void eliminate(Vector& row, const Vector& pivot_row, std::size_t column) {
  if (row[column] == 0) return;
  const auto a = pivot_row[column];
  const auto b = row[column];
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = row[i] * a - pivot_row[i] * b;
  divide_by_gcd(row);
}

}  // namespace

std::vector<Vector> compute_null_space(std::vector<Vector> rows, std::size_t columns) {
  std::vector<std::pair<std::size_t, std::size_t>> pivots;  // column, row
  std::size_t used = 0;
  for (std::size_t column = columns; column-- > 0 && used < rows.size();) {
    std::size_t found = used;
    while (found < rows.size() && rows[found][column] == 0) ++found;
    if (found == rows.size()) continue;
    std::swap(rows[used], rows[found]);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (r != used) eliminate(rows[r], rows[used], column);
    }
    pivots.emplace_back(column, used++);
  }
  std::vector<Vector> out;
  for (std::size_t free = 0; free < columns; ++free) {
    if (std::ranges::count(pivots, free, [](const auto& p) { return p.first; }) != 0) continue;
    std::int64_t scale = 1;
    for (const auto& [column, row] : pivots) {
      if (rows[row][free] != 0) scale = std::lcm(scale, rows[row][column]);
    }
    Vector solution(columns);
    solution[free] = scale;
    for (const auto& [column, row] : pivots) {
      solution[column] = -rows[row][free] * (scale / rows[row][column]);
    }
    divide_by_gcd(solution);
    out.push_back(std::move(solution));
  }
  return out;
}

}  // namespace tandem::verify
