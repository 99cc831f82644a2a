#include "tensor/tensor_type.h"

#include <bit>

namespace tandem {

// This is called for each type that an operator makes while rules are tried, so each number costs
// only one multiplication.
Hash hash_type(const TensorType& type) {
  const auto& s = type.shape;
  Hash h = s.rank() | static_cast<Hash>(type.dtype) << 8U | static_cast<Hash>(s.monoid) << 16U;
  const auto add = [&](Hash word) { h = (h ^ word) * 0x9e3779b97f4a7c15ULL + (h >> 29U); };
  for (auto n : s.sizes) add(static_cast<Hash>(n));
  for (auto n : s.degrees) add(static_cast<Hash>(n));
  add(static_cast<Hash>(s.replicas));
  add(static_cast<Hash>(s.partial));
  add(std::bit_cast<Hash>(type.density));
  return mix(h);
}

}  // namespace tandem
