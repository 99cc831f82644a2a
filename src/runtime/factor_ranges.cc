#include "runtime/factor_ranges.h"

#include <algorithm>

namespace tandem::runtime {

const ops::Signature& signature_of(const Call& call) {
  std::vector<Shape> sizes;
  for (const auto& shard : call.operands) sizes.push_back(shard.sizes);
  return ops::signature(call.op, sizes);
}

// A dimension is cut along its first carrier in whole multiples of what lies behind it; where
// that is used up, what is left of one of it is cut along the next.
std::vector<term::FactorRange> factor_ranges(const Call& call, const ops::Signature& signature) {
  auto out = whole_ranges(signature.map);
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const auto& shard = call.operands[i];
    for (std::size_t d = 0; d < shard.sizes.rank(); ++d) {
      const auto& dim = signature.map.inputs[i][d];
      if (shard.local[d] == shard.sizes[d]) continue;
      auto unit = dim.size;
      auto offset = shard.offset[d];
      for (auto f : dim.carriers) {
        const auto size = signature.map.factors[f].size;
        unit /= size;
        out[f] = {std::max<std::int64_t>(shard.local[d] / unit, 1), size, offset / unit};
        if (shard.local[d] >= unit) break;
        offset %= unit;
      }
    }
  }
  return out;
}

Shape result_shape(const Call& call) {
  const auto& signature = signature_of(call);
  return term::box_of(signature.map.output, factor_ranges(call, signature)).size;
}

}  // namespace tandem::runtime
