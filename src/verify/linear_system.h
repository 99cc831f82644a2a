// Decides whether a system of linear equations has a solution without negative numbers. Exact, for
// small systems of small integers.
//
//   x + y = 4, x = y + 2    has the solution x = 3, y = 1
//   x + y = 1, x = y + 2    has none: y would be -1/2
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace tandem::verify {

class LinearSystem {
 public:
  using Variable = std::size_t;
  // A sum of variables times coefficients, and a constant.
  struct AffineForm {
    std::map<Variable, std::int64_t> parts;
    std::int64_t constant = 0;

    AffineForm& add(const AffineForm& other, std::int64_t times = 1);
  };

  // Returns a new variable, which is at least 0.
  AffineForm add_variable();
  void add_equation(const AffineForm& left, const AffineForm& right);

  // Equations can be taken back: shrink(n) retains the first n, as counted by size().
  [[nodiscard]] std::size_t size() const { return equations_.size(); }
  void shrink(std::size_t size) { equations_.resize(size); }

  // Returns whether there is a solution. Returns true if the numbers grow too large to decide.
  [[nodiscard]] bool may_have_solution() const;

 private:
  std::vector<AffineForm> equations_;  // each equals 0
  std::size_t variables_ = 0;
};

}  // namespace tandem::verify
