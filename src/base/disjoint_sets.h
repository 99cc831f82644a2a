// Numbers 0, 1, ... in classes that are put together.
#pragma once

#include <cstddef>
#include <vector>

namespace tandem {

class DisjointSets {
 public:
  // A number that is a class of its own.
  std::size_t add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  [[nodiscard]] std::size_t size() const { return parents_.size(); }

  // The number that stands for all of the class.
  std::size_t root(std::size_t at) {
    while (parents_[at] != at) at = parents_[at] = parents_[parents_[at]];
    return at;
  }

  // Of two roots: the first stands for both from here on.
  void join(std::size_t kept, std::size_t other) { parents_[other] = kept; }

 private:
  std::vector<std::size_t> parents_;
};

}  // namespace tandem
