// Tensors whose contents are known while a file is imported: shapes, axes, masks and what is
// computed from them. They never become nodes unless a computed tensor meets them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/records.h"
#include "ops/attributes.h"

namespace tandem::import {

struct Known {
  std::int32_t type = kInt64;
  Sizes sizes = {};
  std::vector<std::int64_t> ints = {};  // of whole numbers and bool
  std::vector<double> reals = {};       // of others

  [[nodiscard]] bool whole() const { return is_whole(type); }
  [[nodiscard]] std::size_t count() const { return whole() ? ints.size() : reals.size(); }
  [[nodiscard]] double real(std::size_t i) const {
    return whole() ? static_cast<double>(ints[i]) : reals[i];
  }
};
using KnownPtr = std::shared_ptr<const Known>;

// `folder` holds the contents that are in other files.
Known known_from(const Tensor& tensor, const std::string& folder = "");
Known integers(Sizes values);  // a vector of int64

// How the contents may be written down: as an attribute of the operator constant, if they are of
// its kinds ("fill", "iota", "eye").
struct Written {
  std::string kind;
  double value = 0;
  std::int64_t axis = 0;
};
std::optional<Written> written_as(const Known& k);

// Is this tensor of real numbers 1 up to the diagonal and 0 above it? Reads others only in part.
bool is_triangle(const Tensor& tensor);

// So low that a softmax gives it nothing.
inline bool is_hidden(double score) { return score <= -1e4; }

// Of [..., s, t]: is element t of row s shown only where t <= s? `hidden` tells by value.
bool is_causal(const Known& k, const std::function<bool(double)>& hidden);

}  // namespace tandem::import
