#include "import/known_tensor.h"

#include <algorithm>
#include <cmath>

#include "import/external_data.h"

namespace tandem::import {

namespace {

bool is_iota(const Known& k, std::size_t axis, double step) {
  std::size_t behind = 1;
  for (std::size_t d = axis + 1; d < k.sizes.size(); ++d) {
    behind *= static_cast<std::size_t>(k.sizes[d]);
  }
  const auto size = static_cast<std::size_t>(k.sizes[axis]);
  for (std::size_t i = 0; i < k.count(); ++i) {
    if (k.real(i) != step * static_cast<double>(i / behind % size)) return false;
  }
  return true;
}

bool is_eye(const Known& k) {
  const auto columns = static_cast<std::size_t>(k.sizes.back());
  const auto rows = static_cast<std::size_t>(k.sizes[k.sizes.size() - 2]);
  for (std::size_t i = 0; i < k.count(); ++i) {
    const bool on = i / columns % rows == i % columns;
    if (k.real(i) != (on ? k.real(0) : 0)) return false;
  }
  return true;
}

}  // namespace

Known read_known(const Tensor& tensor, const std::string& directory) {
  auto contents = tensor.external && !directory.empty() ? read_external(tensor, directory)
                                                        : read_contents(tensor);
  return {.type = tensor.type,
          .sizes = tensor.sizes,
          .ints = std::move(contents.ints),
          .reals = std::move(contents.reals)};
}

Known make_integers(Sizes values) {
  Known out{.type = kInt64, .sizes = {static_cast<std::int64_t>(values.size())}};
  out.ints = std::move(values);
  return out;
}

std::optional<Written> match_constant(const Known& k) {
  const auto count = k.count();
  if (count == 0) return std::nullopt;
  bool same = true;
  for (std::size_t i = 1; same && i < count; ++i) same = k.real(i) == k.real(0);
  if (same) return Written{.kind = "fill", .value = k.real(0)};
  for (std::size_t d = 0; d < k.sizes.size(); ++d) {
    if (k.sizes[d] < 2) continue;
    std::size_t behind = 1;
    for (std::size_t e = d + 1; e < k.sizes.size(); ++e) {
      behind *= static_cast<std::size_t>(k.sizes[e]);
    }
    const double step = k.real(behind);
    if (step != 0 && is_iota(k, d, step)) {
      return Written{.kind = "iota", .value = step, .axis = static_cast<std::int64_t>(d)};
    }
  }
  if (k.sizes.size() >= 2 && k.real(0) != 0 && is_eye(k)) {
    return Written{.kind = "eye", .value = k.real(0)};
  }
  return std::nullopt;
}

bool is_triangle(const Tensor& tensor) {
  const auto rank = tensor.sizes.size();
  if (!to_real_dtype(tensor.type) || rank < 2 || tensor.external) return false;
  if (tensor.sizes[rank - 1] < 2 || tensor.sizes[rank - 2] < 2) return false;
  // Weights do not begin with 1, 0.
  if (const auto first = read_beginning(tensor);
      !first || first->first != 1 || first->second != 0) {
    return false;
  }
  const auto k = read_known(tensor);
  return is_causal(k, [](double x) { return x == 0; }) &&
         std::ranges::all_of(k.reals, [](double x) { return x == 0 || x == 1; });
}

bool is_causal(const Known& k, const std::function<bool(double)>& hidden) {
  if (k.sizes.size() < 2 || k.count() == 0) return false;
  const auto columns = static_cast<std::size_t>(k.sizes.back());
  const auto rows = static_cast<std::size_t>(k.sizes[k.sizes.size() - 2]);
  if (columns < 2 || rows < 2) return false;
  for (std::size_t i = 0; i < k.count(); ++i) {
    if (hidden(k.real(i)) != (i % columns > i / columns % rows)) return false;
  }
  return true;
}

}  // namespace tandem::import
