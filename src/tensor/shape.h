// The extents of a tensor with at most 8 dimensions, stored inline (no allocation per tensor).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"

namespace tandem {

class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims) {
    for (auto d : dims) push_back(d);
  }

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const { return dims_[i]; }
  std::int64_t& operator[](std::size_t i) { return dims_[i]; }
  void push_back(std::int64_t d) {
    CHECK(rank_ < kMaxRank);
    dims_[rank_++] = d;
  }

  // Returns the number of elements; 1 for a scalar.
  [[nodiscard]] std::int64_t count() const {
    std::int64_t n = 1;
    for (auto d : *this) n *= d;
    return n;
  }

  [[nodiscard]] const std::int64_t* begin() const { return dims_.data(); }
  [[nodiscard]] const std::int64_t* end() const { return dims_.data() + rank_; }
  std::int64_t* begin() { return dims_.data(); }
  std::int64_t* end() { return dims_.data() + rank_; }

  bool operator==(const Shape& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::uint8_t rank_ = 0;
};

// Returns "[64, 512]"; "[]" for a scalar.
std::string to_text(const Shape& shape);

}  // namespace tandem
