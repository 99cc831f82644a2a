#include "import/constant_folding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace tandem::import {

std::size_t count_and_charge(OnnxCall& call, const Sizes& sizes) {
  const auto count = count_elements(sizes, "the result");
  call.charge(count);
  return static_cast<std::size_t>(count);
}

std::int64_t to_integer(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (value <= -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

void push(Known& out, double value) {
  if (out.has_integers()) {
    out.ints.push_back(to_integer(value));
  } else {
    out.reals.push_back(value);
  }
}

void copy_element(const Known& k, std::size_t from, Known& out) {
  if (k.has_integers()) {
    out.ints.push_back(k.ints[from]);
  } else {
    out.reals.push_back(k.reals[from]);
  }
}

const Known& get_operand(const Operands& in, std::size_t i) {
  if (i >= in.size() || !in[i]) reject(fmt::format("input {} is missing", i));
  return *in[i];
}

std::vector<std::size_t> compute_strides(const Sizes& sizes) {
  std::vector<std::size_t> out(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) {
    out[d - 1] = out[d] * static_cast<std::size_t>(sizes[d]);
  }
  return out;
}

namespace {

// Appends the elements that `copy_strided` reads. The last dimension is the inner loop, because
// masks are large.
template <class T>
void append_strided(const std::vector<T>& from, const Sizes& sizes, std::int64_t at,
                    const std::vector<std::int64_t>& strides, std::vector<T>& out) {
  const auto last = sizes.empty() ? 1 : sizes.back();
  const auto step = sizes.empty() ? 0 : strides.back();
  Sizes index(sizes.size(), 0);
  for (;;) {
    for (std::int64_t i = 0; i < last; ++i) {
      out.push_back(from[static_cast<std::size_t>(at + i * step)]);
    }
    std::size_t d = sizes.empty() ? 0 : sizes.size() - 1;
    for (; d-- > 0;) {
      at += strides[d];
      if (++index[d] < sizes[d]) break;
      at -= strides[d] * index[d];
      index[d] = 0;
    }
    if (d >= sizes.size()) return;  // the index wrapped around: all elements were read
  }
}

}  // namespace

Known copy_strided(OnnxCall& call, const Known& k, Sizes sizes, std::int64_t begin,
                   const std::vector<std::int64_t>& strides) {
  Known out{.type = k.type, .sizes = std::move(sizes)};
  const auto count = count_and_charge(call, out.sizes);
  if (count == 0) return out;
  if (k.has_integers()) {
    out.ints.reserve(count);
    append_strided(k.ints, out.sizes, begin, strides, out.ints);
  } else {
    out.reals.reserve(count);
    append_strided(k.reals, out.sizes, begin, strides, out.reals);
  }
  return out;
}

Sizes broadcast_sizes(const Sizes& a, const Sizes& b) {
  Sizes out(std::max(a.size(), b.size()));
  for (std::size_t d = 0; d < out.size(); ++d) {
    const auto size = [&](const Sizes& s) {
      const auto lacks = out.size() - s.size();
      return d < lacks ? std::int64_t{1} : s[d - lacks];
    };
    if (size(a) != size(b) && size(a) != 1 && size(b) != 1) {
      reject(fmt::format("sizes {} and {} cannot be broadcast", size(a), size(b)));
    }
    out[d] = size(a) == 1 ? size(b) : size(a);
  }
  return out;
}

Known broadcast(OnnxCall& call, const Known& k, const Sizes& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 0);
  const auto own = compute_strides(k.sizes);
  const auto lacks = sizes.size() - k.sizes.size();
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (k.sizes[d] != 1) strides[d + lacks] = static_cast<std::int64_t>(own[d]);
  }
  return copy_strided(call, k, sizes, 0, strides);
}

namespace {

// Returns all folding functions by operator. Reshape, Squeeze, Unsqueeze and Flatten have
// converters instead, which also handle sizes.
const std::map<std::string_view, FoldFunction>& fold_functions() {
  static const auto kFolders = [] {
    std::map<std::string_view, FoldFunction> out;
    for (const auto& list :
         {elementwise_fold_functions(), movement_fold_functions(), reduction_fold_functions()}) {
      out.insert(list.begin(), list.end());
    }
    return out;
  }();
  return kFolders;
}

}  // namespace

std::vector<std::string_view> list_foldable_operators() {
  std::vector<std::string_view> out;
  for (const auto& [name, function] : fold_functions()) out.push_back(name);
  return out;
}

bool fold(OnnxCall& call) {
  const auto at = fold_functions().find(call.op());
  if (at == fold_functions().end() || call.inputs() == 0 || call.outputs() != 1) return false;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    if (!call.has(i)) continue;
    // This check reads no contents: most operands are computed.
    const auto& v = call.value(i);
    if (!v.known && v.stored.empty() && !v.fill) return false;
  }
  Operands in;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    in.push_back(call.has(i) ? call.known(i) : nullptr);
    if (call.has(i) && !in.back()) return false;
  }
  call.set_result(at->second(call, in));
  return true;
}

}  // namespace tandem::import
