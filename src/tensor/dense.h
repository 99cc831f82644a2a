// A dense array of values in row-major order, which the interpreters compute with.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/shape.h"

namespace tandem {

template <class T>
struct Dense {
  Shape shape;
  std::vector<T> data;

  Dense() = default;
  explicit Dense(const Shape& s) : shape(s), data(static_cast<std::size_t>(s.count())) {}
  Dense(const Shape& s, std::vector<T> values) : shape(s), data(std::move(values)) {
    CHECK(static_cast<std::int64_t>(data.size()) == s.count());
  }

  bool operator==(const Dense&) const = default;
};

// Visits every index of `shape` in row-major order: visit(const Shape& index).
template <class Visit>
void for_each_index(const Shape& shape, Visit&& visit) {
  if (shape.count() == 0) return;
  Shape index = shape;
  for (auto& i : index) i = 0;
  while (true) {
    visit(std::as_const(index));
    std::size_t d = shape.rank();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

inline std::int64_t compute_flat_index(const Shape& shape, const Shape& index) {
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < shape.rank(); ++d) flat = flat * shape[d] + index[d];
  return flat;
}

}  // namespace tandem
