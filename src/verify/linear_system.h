// Does a system of linear equations have a solution without negative numbers? Exact, for small
// systems of small whole numbers.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace tandem::verify {

class LinearSystem {
 public:
  using Variable = std::size_t;
  // A sum: the variables' coefficients and a constant.
  struct Affine {
    std::map<Variable, std::int64_t> parts;
    std::int64_t constant = 0;

    Affine& add(const Affine& other, std::int64_t times = 1);
  };

  // A new one, at least 0.
  Affine variable();
  void add_equation(const Affine& left, const Affine& right);

  // Equations added since `size` was this many can be taken back.
  [[nodiscard]] std::size_t size() const { return equations_.size(); }
  void shrink(std::size_t size) { equations_.resize(size); }

  // Where the numbers grow too large to tell, it is said that it has.
  [[nodiscard]] bool may_have_solution() const;

 private:
  std::vector<Affine> equations_;  // each is 0
  std::size_t variables_ = 0;
};

}  // namespace tandem::verify
