#include "verify/linear_system.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tandem::verify {

namespace {

using Row = std::vector<std::int64_t>;  // coefficients, then the right-hand side

// Sets row to row * a - pivot * b, without a common factor. Returns false on overflow.
bool combine(Row& row, std::int64_t a, const Row& pivot, std::int64_t b) {
  std::int64_t divisor = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::int64_t left = 0;
    std::int64_t right = 0;
    if (__builtin_mul_overflow(row[i], a, &left) || __builtin_mul_overflow(pivot[i], b, &right) ||
        __builtin_sub_overflow(left, right, &row[i])) {
      return false;
    }
    divisor = std::gcd(divisor, row[i]);
  }
  if (divisor > 1) {
    for (auto& n : row) n /= divisor;
  }
  return true;
}

// The first phase of the simplex method. Each equation has an artificial variable, and the sum of
// these is minimized. Rows are scaled so that they stay integers. Bland's rule makes it terminate.
class Tableau {
 public:
  Tableau(std::vector<Row> rows, std::size_t columns) : rows_(std::move(rows)), columns_(columns) {
    objective_.assign(columns + 1, 0);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r][columns] < 0) {
        for (auto& n : rows_[r]) n = -n;
      }
      for (std::size_t c = 0; c <= columns; ++c) objective_[c] -= rows_[r][c];
      basis_.push_back(columns + r);
    }
  }

  bool may_reach_zero() {
    for (;;) {
      const auto entering =
          std::find_if(objective_.begin(), objective_.end() - 1, [](auto n) { return n < 0; }) -
          objective_.begin();
      const auto column = static_cast<std::size_t>(entering);
      if (column == columns_) return objective_[columns_] == 0;
      const auto row = find_leaving_row(column);
      if (!row || !pivot(*row, column)) return true;
    }
  }

 private:
  // Returns the row that limits how far the column's variable may grow.
  [[nodiscard]] std::optional<std::size_t> find_leaving_row(std::size_t column) const {
    std::optional<std::size_t> best;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r][column] <= 0) continue;
      if (!best) {
        best = r;
        continue;
      }
      const auto mine = static_cast<__int128>(rows_[r][columns_]) * rows_[*best][column];
      const auto other = static_cast<__int128>(rows_[*best][columns_]) * rows_[r][column];
      if (mine < other || (mine == other && basis_[r] < basis_[*best])) best = r;
    }
    return best;
  }

  bool pivot(std::size_t row, std::size_t column) {
    const auto a = rows_[row][column];
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (r == row || rows_[r][column] == 0) continue;
      if (!combine(rows_[r], a, rows_[row], rows_[r][column])) return false;
    }
    basis_[row] = column;
    return combine(objective_, a, rows_[row], objective_[column]);
  }

  std::vector<Row> rows_;
  std::size_t columns_;
  Row objective_;
  std::vector<std::size_t> basis_;  // by row; `columns_` and above are artificial variables
};

}  // namespace

LinearSystem::AffineForm& LinearSystem::AffineForm::add(const AffineForm& other,
                                                        std::int64_t times) {
  for (const auto& [variable, n] : other.parts) parts[variable] += n * times;
  constant += other.constant * times;
  return *this;
}

LinearSystem::AffineForm LinearSystem::add_variable() { return {.parts = {{variables_++, 1}}}; }

void LinearSystem::add_equation(const AffineForm& left, const AffineForm& right) {
  AffineForm difference = left;
  difference.add(right, -1);
  equations_.push_back(std::move(difference));
}

bool LinearSystem::may_have_solution() const {
  std::vector<Row> rows;
  for (const auto& equation : equations_) {
    Row row(variables_ + 1);
    for (const auto& [variable, n] : equation.parts) row[variable] = n;
    row[variables_] = -equation.constant;
    rows.push_back(std::move(row));
  }
  return Tableau(std::move(rows), variables_).may_reach_zero();
}

}  // namespace tandem::verify
