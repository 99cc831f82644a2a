// Folding of operators that move elements, or compute them from their positions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "import/constant_folding.h"

namespace tandem::import {

namespace {

std::size_t resolve_axis(OnnxCall& call, std::int64_t axis, const Known& k) {
  return call.axis(axis, k.sizes.size());
}

Known replace_sizes(const Known& k, Sizes sizes) {
  Known out = k;
  out.sizes = std::move(sizes);
  return out;
}

Known fold_gather(OnnxCall& call, const Operands& in) {
  const auto& k = get_operand(in, 0);
  const auto& index = get_operand(in, 1);
  if (!index.has_integers()) reject("the indices must be integers");
  const auto axis = resolve_axis(call, call.integer("axis", 0), k);
  Sizes sizes(k.sizes.begin(), k.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  sizes.insert(sizes.end(), index.sizes.begin(), index.sizes.end());
  sizes.insert(sizes.end(), k.sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, k.sizes.end());
  Known out{.type = k.type, .sizes = sizes};
  if (count_and_charge(call, sizes) == 0) return out;
  const auto behind = compute_strides(k.sizes)[axis];
  const auto along = k.sizes[axis];
  if (along == 0) reject("the dimension to gather from is empty");
  const auto blocks = k.count() / (behind * static_cast<std::size_t>(along));
  for (std::size_t b = 0; b < blocks; ++b) {
    for (auto i : index.ints) {
      if (i < -along || i >= along)
        reject(fmt::format("index {} is out of range 0..{}", i, along - 1));
      const auto row = static_cast<std::size_t>(i < 0 ? i + along : i);
      for (std::size_t e = 0; e < behind; ++e) {
        copy_element(k, (b * static_cast<std::size_t>(along) + row) * behind + e, out);
      }
    }
  }
  return out;
}

Known fold_concat(OnnxCall& call, const Operands& in) {
  const auto& first = get_operand(in, 0);
  const auto axis = resolve_axis(call, call.integer("axis", 1), first);
  Known out{.type = first.type, .sizes = first.sizes};
  out.sizes[axis] = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto& k = get_operand(in, i);
    if (k.sizes.size() != first.sizes.size() || k.has_integers() != first.has_integers()) {
      reject("the inputs differ in rank or type");
    }
    for (std::size_t d = 0; d < k.sizes.size(); ++d) {
      if (d != axis && k.sizes[d] != first.sizes[d]) reject("the inputs' sizes differ");
    }
    out.sizes[axis] += k.sizes[axis];
  }
  if (count_and_charge(call, out.sizes) == 0) return out;
  std::size_t blocks = 1;
  for (std::size_t d = 0; d < axis; ++d) blocks *= static_cast<std::size_t>(first.sizes[d]);
  for (std::size_t b = 0; b < blocks; ++b) {
    for (const auto& k : in) {
      const auto block = k->count() / blocks;
      for (std::size_t e = 0; e < block; ++e) copy_element(*k, b * block + e, out);
    }
  }
  return out;
}

Known fold_slice(OnnxCall& call, const Operands& in) {
  const auto& k = get_operand(in, 0);
  const auto list = [&](const char* name, std::size_t i) -> std::optional<Sizes> {
    if (auto given = call.integers(name)) return given;
    if (i < in.size() && in[i]) return in[i]->ints;
    return std::nullopt;
  };
  const auto starts = list("starts", 1).value_or(Sizes{});
  const auto ends = list("ends", 2).value_or(Sizes{});
  auto axes = list("axes", 3);
  const auto steps = list("steps", 4).value_or(Sizes(starts.size(), 1));
  if (!axes) {
    axes.emplace(starts.size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (ends.size() != starts.size() || axes->size() != starts.size() ||
      steps.size() != starts.size()) {
    reject("starts, ends, axes and steps differ in length");
  }
  auto sizes = k.sizes;
  std::vector<std::int64_t> strides;
  for (auto s : compute_strides(k.sizes)) strides.push_back(static_cast<std::int64_t>(s));
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto d = resolve_axis(call, (*axes)[i], k);
    const auto size = k.sizes[d];
    const auto step = steps[i];
    if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) reject("a step is 0");
    if (size == 0) continue;
    const auto place = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      return std::clamp(at < 0 ? at + size : at, low, high);
    };
    const auto from = step > 0 ? place(starts[i], 0, size) : place(starts[i], 0, size - 1);
    const auto to = step > 0 ? place(ends[i], 0, size) : place(ends[i], -1, size - 1);
    const auto length = step > 0 ? to - from : from - to;
    const auto stride = step > 0 ? step : -step;
    sizes[d] = length <= 0 ? 0 : (length - 1) / stride + 1;
    if (sizes[d] == 0) continue;
    begin += from * strides[d];
    strides[d] *= sizes[d] == 1 ? 1 : step;
  }
  if (count_elements(sizes, "the result") == 0) return {.type = k.type, .sizes = sizes};
  return copy_strided(call, k, sizes, begin, strides);
}

Known fold_range(OnnxCall& call, const Operands& in) {
  const auto& start = get_operand(in, 0);
  if (start.count() != 1 || get_operand(in, 1).count() != 1 || get_operand(in, 2).count() != 1) {
    reject("start, limit and delta must be scalars");
  }
  const double step = in[2]->real(0);
  if (step == 0) reject("delta is 0");
  const double steps = std::ceil((in[1]->real(0) - start.real(0)) / step);
  const double count = std::isfinite(steps) ? std::max(0.0, std::min(steps, 0x1p40)) : 0;
  Known out{.type = start.type, .sizes = {static_cast<std::int64_t>(count)}};
  const auto n = count_and_charge(call, out.sizes);
  for (std::size_t i = 0; i < n; ++i) push(out, start.real(0) + static_cast<double>(i) * step);
  return out;
}

Known fold_expand(OnnxCall& call, const Operands& in) {
  const auto& k = get_operand(in, 0);
  return broadcast(call, k, broadcast_sizes(k.sizes, get_operand(in, 1).ints));
}

Known fold_tile(OnnxCall& call, const Operands& in) {
  const auto& k = get_operand(in, 0);
  const auto& times = get_operand(in, 1).ints;
  if (times.size() != k.sizes.size()) reject("the number of repeats differs from the rank");
  // Tiles [a, b] as [ta, a, tb, b], with strides of 0 along the new dimensions.
  Sizes sizes;
  Sizes joined;
  std::vector<std::int64_t> strides;
  const auto own = compute_strides(k.sizes);
  for (std::size_t d = 0; d < times.size(); ++d) {
    if (times[d] < 0 || times[d] > (std::int64_t{1} << 40U))
      reject("a repeat count is out of range");
    sizes.insert(sizes.end(), {times[d], k.sizes[d]});
    strides.insert(strides.end(), {0, static_cast<std::int64_t>(own[d])});
    joined.push_back(times[d] * k.sizes[d]);
  }
  return replace_sizes(copy_strided(call, k, sizes, 0, strides), joined);
}

Known fold_transpose(OnnxCall& call, const Operands& in) {
  const auto& k = get_operand(in, 0);
  Sizes perm(k.sizes.size());
  for (std::size_t d = 0; d < perm.size(); ++d) {
    perm[d] = static_cast<std::int64_t>(perm.size() - 1 - d);
  }
  perm = call.integers("perm").value_or(perm);
  if (perm.size() != k.sizes.size()) reject("the length of perm differs from the rank");
  const auto own = compute_strides(k.sizes);
  Sizes sizes;
  std::vector<std::int64_t> strides;
  for (auto p : perm) {
    const auto d = resolve_axis(call, p, k);
    sizes.push_back(k.sizes[d]);
    strides.push_back(static_cast<std::int64_t>(own[d]));
  }
  if (count_elements(sizes, "the result") != static_cast<std::int64_t>(k.count())) {
    reject("perm contains a dimension twice");
  }
  return copy_strided(call, k, sizes, 0, strides);
}

Known fold_trilu(OnnxCall& call, const Operands& in) {
  const auto& k = get_operand(in, 0);
  if (k.sizes.size() < 2) reject("the input must have at least 2 dimensions");
  const bool upper = call.integer("upper", 1) != 0;
  const std::int64_t diagonal = in.size() > 1 && in[1] && !in[1]->ints.empty() ? in[1]->ints[0] : 0;
  if (std::abs(static_cast<double>(diagonal)) > 0x1p40) reject("the diagonal is out of range");
  Known out = k;
  const auto columns = k.sizes.back();
  const auto rows = k.sizes[k.sizes.size() - 2];
  for (std::size_t i = 0; i < k.count(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto above = at % columns - at / columns % rows - diagonal;
    if (upper ? above >= 0 : above <= 0) continue;
    out.has_integers() ? static_cast<void>(out.ints[i] = 0) : static_cast<void>(out.reals[i] = 0);
  }
  return out;
}

Known fold_non_zero(OnnxCall& call, const Operands& in) {
  const auto& k = get_operand(in, 0);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < k.count(); ++i) {
    if (k.real(i) != 0) found.push_back(i);
  }
  Known out{.type = kInt64,
            .sizes = {static_cast<std::int64_t>(k.sizes.size()),
                      static_cast<std::int64_t>(found.size())}};
  count_and_charge(call, out.sizes);
  const auto strides = compute_strides(k.sizes);
  for (std::size_t d = 0; d < k.sizes.size(); ++d) {
    for (auto i : found) {
      out.ints.push_back(
          static_cast<std::int64_t>(i / strides[d] % static_cast<std::size_t>(k.sizes[d])));
    }
  }
  return out;
}

Known fold_identity(OnnxCall&, const Operands& in) { return get_operand(in, 0); }

}  // namespace

FoldFunctions movement_fold_functions() {
  return {
      {"Concat", fold_concat},     {"Expand", fold_expand},    {"Gather", fold_gather},
      {"Identity", fold_identity}, {"NonZero", fold_non_zero}, {"Range", fold_range},
      {"Slice", fold_slice},       {"Tile", fold_tile},        {"Transpose", fold_transpose},
      {"Trilu", fold_trilu},
  };
}

}  // namespace tandem::import
