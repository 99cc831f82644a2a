#include "runtime/factor_ranges.h"

#include <algorithm>

namespace tandem::runtime {

const ops::Signature& get_signature(const Call& call) {
  std::vector<Shape> sizes;
  for (const auto& shard : call.operands) sizes.push_back(shard.sizes);
  return ops::get_signature(call.op, sizes);
}

namespace {

// Narrows the ranges of the factors that carry the dimensions of one tensor. A dimension is cut
// along its first carrier, in whole multiples of the elements behind it. If the shard is smaller
// than one multiple, that one is cut along the next carrier. Example: dimension (a:3 b:4), 2
// elements at offset 6 -> a: 1 at offset 1, b: 2 at offset 2. The ranges of a window's carriers
// cannot be derived.
void narrow_ranges(const term::IndexMap& map, const term::Dims& dims, const Shard& shard,
                   std::vector<term::FactorRange>& out) {
  for (std::size_t d = 0; d < shard.sizes.rank(); ++d) {
    const auto& dim = dims[d];
    if (!dim.exact || shard.local[d] == shard.sizes[d]) continue;
    auto unit = dim.size;
    auto offset = shard.offset[d];
    for (auto f : dim.carriers) {
      const auto size = map.factors[f].size;
      unit /= size;
      out[f] = {std::max<std::int64_t>(shard.local[d] / unit, 1), size, offset / unit};
      if (shard.local[d] >= unit) break;
      offset %= unit;
    }
  }
}

}  // namespace

std::vector<term::FactorRange> compute_factor_ranges(const Call& call,
                                                     const ops::Signature& signature) {
  const auto& map = signature.map;
  auto out = make_full_ranges(map);
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    narrow_ranges(map, map.inputs[i], call.operands[i], out);
  }
  narrow_ranges(map, map.output, call.result, out);
  return out;
}

term::Box compute_result_box(const Call& call) {
  const auto& signature = get_signature(call);
  return term::compute_box(signature.map.output, compute_factor_ranges(call, signature));
}

}  // namespace tandem::runtime
