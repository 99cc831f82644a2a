// Index text: one line that says which factors an operator's tensors run over.
//
//   "... k, n k -> ... n"              linear: k is contracted, n comes from the weight
//   "... !c -> ... !c"                 softmax: every device needs all of c
//   "b (kv g) s d, b kv t d -> ..."    a dimension that runs over two factors, g fastest
//   "a (b:4 c) -> (a b) c"             reshape; b's size is given because no tensor shows it
//   "a c+0, a c-3 -> a c:8"            concat: input 1 is read at c - 3, and is zero outside
//   "b c 2y+r-1, k c r -> b k y:112"   convolution: stride 2, padding 1
//   "b 0 d, e d -> b e d"              a dimension of size 1, always read at 0
//   "t !e -> t !e | f:8"               f: a factor that no tensor has, for sums inside the term
//
// `...` stands for any number of leading dimensions, which become the factors d0 d1 ...
// IndexMap is the text resolved against actual shapes.
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
  bool whole = false;  // marked '!', or listed after '|': never partitioned
};

// A sum of factors times coefficients, and a constant: 2y + r - 1.
struct Affine {
  struct AffinePart {
    FactorId factor = 0;
    std::int64_t coefficient = 1;
  };
  std::vector<AffinePart> parts;
  std::int64_t constant = 0;
};

// One dimension of a tensor and the index at which it is read.
struct Dim {
  std::int64_t size = 0;
  Affine at;
  // Factors whose partitioning partitions the dimension, the major one first. The tensor is
  // replicated over every other factor that is partitioned.
  std::vector<FactorId> carriers;
  // Whether the carriers count exactly through the dimension. If not, a device reads a window that
  // differs from its shard (a convolution's rows, a concatenation's pieces).
  bool exact = true;
};

using Dims = std::vector<Dim>;

struct IndexMap {
  // Limits of a 64-bit mask; resolve_index refuses more.
  static constexpr std::size_t kMaxFactors = 64;
  static constexpr std::size_t kMaxInputs = 63;

  std::vector<Factor> factors;  // in order of first appearance, which is the order of a task grid
  std::vector<Dims> inputs;
  Dims output;

  // Returns the number of the factor with that name, or -1 if there is none.
  [[nodiscard]] int find(std::string_view name) const;
  // Returns the dimension of input `i`, or of the output, that `f` is a carrier of, or -1.
  [[nodiscard]] int find_input_dim(std::size_t i, FactorId f) const;
  [[nodiscard]] int find_output_dim(FactorId f) const;
};

Shape to_shape(const Dims& dims);

// Resolves `text` for the given input shapes. Throws UserError if ranks or sizes disagree: "index
// 'k' is 64 in input 0 and 63 in input 1". The error has no location, since only the caller knows
// the node.
IndexMap resolve_index(std::string_view text, std::span<const Shape> inputs);

// Parses `text`, which gives an index per dimension in the notation above: "b 2y+r-1 (g c)". Its
// factors must be in `map`.
std::vector<Affine> parse_read(std::string_view text, const IndexMap& map);

}  // namespace tandem::term
