#include "machine/peak.h"

#include <array>
#include <span>

#include "base/error.h"

namespace tandem::machine {

namespace {

// Returns the types whose rates may stand in for `type`. The nearest wider type comes first because
// hardware converts to it, then the nearest narrower one. Integers count as floats of their size.
std::span<const DType> list_stand_in_types(DType type) {
  using enum DType;
  static constexpr std::array kLikeFp64 = {kFp64, kFp32, kFp16, kBf16};
  static constexpr std::array kLikeFp32 = {kFp32, kFp64, kFp16, kBf16};
  static constexpr std::array kLikeFp16 = {kFp16, kFp32, kFp64, kBf16};
  static constexpr std::array kLikeBf16 = {kBf16, kFp32, kFp64, kFp16};
  static constexpr std::array kLikeInt32 = {kInt32, kFp32, kFp64, kFp16, kBf16};
  static constexpr std::array kLikeInt64 = {kInt64, kFp64, kFp32, kFp16, kBf16};
  switch (type) {
    case kFp64:
      return kLikeFp64;
    case kFp32:
      return kLikeFp32;
    case kFp16:
      return kLikeFp16;
    case kBf16:
      return kLikeBf16;
    case kInt32:
      return kLikeInt32;
    case kInt64:
      return kLikeInt64;
  }
  CHECK(false);
}

}  // namespace

DType find_peak_type(const Device& device, DType dtype) {
  for (const DType stand_in : list_stand_in_types(dtype)) {
    if (device.peak.contains(stand_in)) return stand_in;
  }
  // Only integer rates are listed.
  CHECK(!device.peak.empty(), device.name);
  return device.peak.begin()->first;
}

}  // namespace tandem::machine
