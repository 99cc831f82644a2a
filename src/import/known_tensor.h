// Tensors whose contents are known during an import: shapes, axes, masks and what is computed from
// them. They become nodes only where a computed tensor uses them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/records.h"
#include "ops/attributes.h"

namespace tandem::import {

// Contents of one tensor.
struct Known {
  std::int32_t type = kInt64;
  Sizes sizes = {};
  std::vector<std::int64_t> ints = {};  // elements of an integer or bool tensor
  std::vector<double> reals = {};       // elements of any other tensor

  [[nodiscard]] bool has_integers() const { return is_integer_type(type); }
  [[nodiscard]] std::size_t count() const { return has_integers() ? ints.size() : reals.size(); }
  [[nodiscard]] double real(std::size_t i) const {
    return has_integers() ? static_cast<double>(ints[i]) : reals[i];
  }
};
using KnownPtr = std::shared_ptr<const Known>;

// Returns the contents of `tensor`. `directory` is the directory of external data; empty: none is
// read.
Known read_known(const Tensor& tensor, const std::string& directory = "");
Known make_integers(Sizes values);  // a vector of int64

// Representation of contents by the attributes of the operator constant, whose kinds are "fill",
// "iota" and "eye".
struct Written {
  std::string kind;
  double value = 0;
  std::int64_t axis = 0;
};
// Returns the representation of `k`, or nullopt if it is of no such kind.
//   {5, 5, 5} -> fill of 5; {0, 2, 4} -> iota of step 2, axis 0; {{1, 0}, {0, 1}} -> eye of 1
std::optional<Written> match_constant(const Known& k);

// Returns whether `tensor` is floating point, with 1 up to the diagonal and 0 above it. Reads other
// tensors only in part.
bool is_triangle(const Tensor& tensor);

// Returns whether `score` is so low that a softmax makes it zero.
inline bool is_hidden(double score) { return score <= -1e4; }

// Returns whether `k`, of shape [..., s, t], hides exactly the elements with t > s. `hidden`
// decides by value.
bool is_causal(const Known& k, const std::function<bool(double)>& hidden);

}  // namespace tandem::import
