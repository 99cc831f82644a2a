// Element types. Computation may use any of them; indices are int32 or int64.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.h"

namespace tandem {

enum class DType : std::uint8_t { kFp64, kFp32, kFp16, kBf16, kInt32, kInt64 };

inline constexpr std::array<std::string_view, 6> kDTypeNames = {"fp64", "fp32",  "fp16",
                                                                "bf16", "int32", "int64"};

constexpr std::string_view name(DType type) { return kDTypeNames[static_cast<std::size_t>(type)]; }

constexpr bool is_integer(DType type) { return type == DType::kInt32 || type == DType::kInt64; }

constexpr bool is_half(DType type) { return type == DType::kFp16 || type == DType::kBf16; }

constexpr Bytes get_element_size(DType type) {
  constexpr std::array<double, 6> kSizes = {8, 4, 2, 2, 4, 8};
  return Bytes{kSizes[static_cast<std::size_t>(type)]};
}

inline std::string attribute_text(DType type) { return std::string(name(type)); }

inline bool parse_attribute(std::string_view text, DType& out) {
  for (std::size_t i = 0; i < kDTypeNames.size(); ++i) {
    if (kDTypeNames[i] != text) continue;
    out = static_cast<DType>(i);
    return true;
  }
  return false;
}

}  // namespace tandem
