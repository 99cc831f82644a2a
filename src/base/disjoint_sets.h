// Disjoint sets (union-find) of the numbers 0, 1, ...
#pragma once

#include <cstddef>
#include <vector>

namespace tandem {

class DisjointSets {
 public:
  // Adds a number in a set of its own and returns it.
  std::size_t add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  [[nodiscard]] std::size_t size() const { return parents_.size(); }

  // Returns the number that represents the set of `at`.
  std::size_t root(std::size_t at) {
    while (parents_[at] != at) at = parents_[at] = parents_[parents_[at]];
    return at;
  }

  // Merges the sets of two roots; `root` represents both from now on.
  void join(std::size_t root, std::size_t other) { parents_[other] = root; }

 private:
  std::vector<std::size_t> parents_;
};

}  // namespace tandem
