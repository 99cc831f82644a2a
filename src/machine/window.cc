#include "machine/window.h"

#include <algorithm>

#include "tensor/dense.h"

namespace tandem::machine {

namespace {

Window make_shard_window(std::int64_t shard) { return {0, shard, shard}; }

Window make_window(const ops::IndexMap& map, const term::Dim& dim, std::int64_t degree) {
  const auto shard = dim.size / degree;
  if (dim.exact || degree == 1) return make_shard_window(shard);
  Window out;
  auto first = dim.at.constant;
  auto last = dim.at.constant;
  for (const auto& part : dim.at.parts) {
    const bool is_cut = part.factor == dim.carriers[0];
    const auto local = map.factors[part.factor].size / (is_cut ? degree : 1);
    if (is_cut) out.step = part.coefficient * local;
    const auto reach = part.coefficient * (local - 1);
    first += std::min(reach, std::int64_t{0});
    last += std::max(reach, std::int64_t{0});
  }
  out.first = first;
  out.size = last - first + 1;
  for (std::int64_t k = 0; k < degree; ++k) {
    const auto range = compute_range(out, k, dim.size);
    if (range.offset != k * shard || range.size != shard) return out;
  }
  return make_shard_window(shard);
}

DigitMask get_cut_digits(const Layout& layout, std::size_t dim) {
  return layout.digits(DigitRole::dim(dim));
}

// Along one dimension: what one rank needs, and the part of that it already has.
struct Reach {
  std::int64_t needs = 0;
  std::int64_t own = 0;
  std::int64_t shards = 0;  // number of shards that contain it
};

Reach compute_reach(const Window& window, std::int64_t rank, std::int64_t shard,
                    std::int64_t extent) {
  const auto range = compute_range(window, rank, extent);
  if (range.size == 0) return {};
  const auto end = range.offset + range.size;
  const auto own = std::min(end, (rank + 1) * shard) - std::max(range.offset, rank * shard);
  return {.needs = range.size,
          .own = std::max(own, std::int64_t{0}),
          .shards = (end - 1) / shard - range.offset / shard + 1};
}

}  // namespace

IndexRange compute_range(const Window& window, std::int64_t rank, std::int64_t extent) {
  const auto at = window.first + rank * window.step;
  const auto begin = std::clamp(at, std::int64_t{0}, extent);
  return {begin, std::clamp(at + window.size, begin, extent) - begin};
}

std::vector<Window> compute_windows(const ops::Signature& s, std::size_t input,
                                    const Layout& layout, const Digits& digits) {
  const auto& dims = s.map.inputs[input];
  if (std::ranges::all_of(dims, &term::Dim::exact)) return {};
  std::vector<Window> out;
  bool differs = false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto degree = digits.group_size(get_cut_digits(layout, d));
    out.push_back(make_window(s.map, dims[d], degree));
    differs = differs || out.back() != make_shard_window(dims[d].size / degree);
  }
  if (!differs) out.clear();
  return out;
}

Shape compute_largest_block(const std::vector<Window>& windows, const Layout& layout,
                            const Shape& sizes, const Digits& digits) {
  Shape out = sizes;
  for (std::size_t d = 0; d < windows.size(); ++d) {
    out[d] = 0;
    for (std::int64_t k = 0; k < digits.group_size(get_cut_digits(layout, d)); ++k) {
      out[d] = std::max(out[d], compute_range(windows[d], k, sizes[d]).size);
    }
  }
  return out;
}

Halo compute_halo(const std::vector<Window>& windows, const Layout& layout, const Shape& sizes,
                  const Digits& digits) {
  Halo out;
  Shape ranks = sizes;  // only dimensions with windows vary; in the others all ranks are equivalent
  Shape shard = sizes;
  for (std::size_t d = 0; d < windows.size(); ++d) {
    const auto degree = digits.group_size(get_cut_digits(layout, d));
    shard[d] = sizes[d] / degree;
    const bool is_cut = windows[d] != make_shard_window(shard[d]);
    ranks[d] = is_cut ? degree : 1;
    if (is_cut) out.digits |= get_cut_digits(layout, d);
  }
  for_each_index(ranks, [&](const Shape& rank) {
    Reach all{1, 1, 1};
    for (std::size_t d = 0; d < windows.size(); ++d) {
      const auto along = compute_reach(windows[d], rank[d], shard[d], sizes[d]);
      all = {all.needs * along.needs, all.own * along.own, all.shards * along.shards};
    }
    out.most = std::max(out.most, all.needs - all.own);
    out.together += all.needs - all.own;
    out.messages = std::max(out.messages, all.shards - (all.own > 0 ? 1 : 0));
  });
  return out;
}

}  // namespace tandem::machine
