// The initial numbers of source nodes. Inputs and weights depend only on name, RNG seed and global
// index, so every plan of a model draws the same numbers wherever its shards are. Constants have
// the values that their attributes give.
#pragma once

#include <cmath>

#include "graph/graph.h"
#include "ops/registry.h"
#include "ops/sources.h"
#include "term/field.h"

namespace tandem::graph {

class Feed {
 public:
  // Constructs the feed of a source node. Inputs differ from step to step (`step`), weights do not.
  Feed(const Node& source, std::uint64_t seed, std::uint64_t step)
      : key_(hash_combine(hash_combine(hash_text(source.name), seed),
                          is_weight(source) ? 0 : step + 1)),
        constant_(source.op.is(ops::kConstant) ? &source.op.get<ops::Constant>() : nullptr),
        below_(is_input(source) ? source.op.get<ops::Input>().below : 0),
        scale_(is_weight(source) ? weight_scale(source.type.shape.sizes) : 1) {}

  // Returns the element at the global row-major index. It is an integer in [0, below), or uniform
  // in [-scale, scale) with scale 1 for inputs and 1/sqrt(last dimension) for weights, or the
  // constant's element.
  [[nodiscard]] double element(std::int64_t index) const {
    if (constant_ != nullptr) return ops::compute_constant_element(*constant_, index);
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
  const ops::Constant* constant_;  // points into an interned operator; null for inputs and weights
  std::int64_t below_;
  double scale_;
};

template <>
inline double Feed::element_as<double>(std::int64_t index) const {
  return element(index);
}
template <>
inline term::Field Feed::element_as<term::Field>(std::int64_t index) const {
  const bool known = constant_ != nullptr || below_ > 0;
  return known ? term::Numbers<term::Field>::from(element(index)) : term::Field(bits(index));
}

}  // namespace tandem::graph
