// Index text: one line that says which factors an operator's tensors run over.
//
//   "... k, n k -> ... n"        linear: k is contracted, n comes from the weight
//   "... !c -> ... !c"           softmax: every device needs c whole
//   "a c0, a c1 -> a c=c0+c1"    concat: c is as long as c0 and c1 together
//
// `...` stands for the leading dimensions, whatever their number; they become the factors d0 d1 ...
// IndexMap is the text resolved against actual shapes: factors with sizes, a factor per dimension.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.h"

namespace tandem::term {

using FactorId = std::uint8_t;

struct Factor {
  std::string name;
  std::int64_t size = 0;
  bool whole = false;  // marked '!', or tied to others by a sum: never partitioned
};

struct IndexMap {
  // What a 64-bit mask holds; resolve_index refuses more.
  static constexpr std::size_t kMaxFactors = 64;
  static constexpr std::size_t kMaxInputs = 63;

  std::vector<Factor> factors;  // in order of first appearance: the order of a task grid
  std::vector<std::vector<FactorId>> inputs;
  std::vector<std::vector<FactorId>> outputs;

  [[nodiscard]] Shape shape_of(const std::vector<FactorId>& dims) const;
  // -1 when there is no factor of that name.
  [[nodiscard]] int find(std::string_view name) const;
  // The dimension of input `i` that runs along `f`, or -1.
  [[nodiscard]] int input_dim(std::size_t i, FactorId f) const;
  [[nodiscard]] int output_dim(FactorId f) const;
};

// Resolves `text` for the given input shapes. Throws UserError (without a place: the caller knows
// the node) when ranks or sizes disagree: "index 'k' is 64 in input 0 and 63 in input 1".
IndexMap resolve_index(std::string_view text, std::span<const Shape> inputs);

}  // namespace tandem::term
