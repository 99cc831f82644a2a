// The numbers that inputs and weights start with: a function of name, seed and global index alone,
// so every plan of a model draws the same ones wherever its shards are.
#pragma once

#include <cmath>

#include "graph/graph.h"
#include "ops/attributes.h"
#include "term/field.h"

namespace tandem::graph {

class Feed {
 public:
  // Of a source node. Inputs differ from step to step (`step`), weights do not.
  Feed(const Node& source, std::uint64_t seed, std::uint64_t step)
      : key_(hash_combine(hash_combine(hash_text(source.name), seed),
                          is_weight(source) ? 0 : step + 1)),
        below_(source.op.get<ops::Source>().below),
        scale_(is_weight(source) ? weight_scale(source.type.shape.sizes) : 1) {}

  // Element at the global row-major index: an integer in [0, below), or uniform in
  // [-scale, scale) with scale 1 for inputs and 1/sqrt(last dimension) for weights.
  [[nodiscard]] double element(std::int64_t index) const {
    const Hash h = bits(index);
    if (below_ > 0) return static_cast<double>(h % static_cast<Hash>(below_));
    return scale_ * (static_cast<double>(h >> 11U) * 0x1p-52 - 1);
  }

  template <class T>
  [[nodiscard]] T element_as(std::int64_t index) const;

 private:
  static double weight_scale(const Shape& shape) {
    return shape.rank() == 0 ? 1 : 1 / std::sqrt(static_cast<double>(shape[shape.rank() - 1]));
  }
  [[nodiscard]] Hash bits(std::int64_t index) const {
    return hash_combine(key_, static_cast<Hash>(index));
  }

  Hash key_;
  std::int64_t below_;
  double scale_;
};

template <>
inline double Feed::element_as<double>(std::int64_t index) const {
  return element(index);
}
template <>
inline term::Field Feed::element_as<term::Field>(std::int64_t index) const {
  return below_ > 0 ? term::Numbers<term::Field>::from(element(index)) : term::Field(bits(index));
}

}  // namespace tandem::graph
