// Regions: the parts of a machine that one side of a parallel split may have. A region leaves some
// of the machine's digits free and fixes the others at one coordinate.
//
// Unity divides resources by quantity: a number of nodes times a number of devices of each. Layouts
// here are made of digits, so only a division at a digit is possible. Two nodes are divided into
// one and one; of three GPUs, each side gets one and the third stays idle. Digits of one level and
// size are equivalent: the outermost free one represents all of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "machine/digits.h"

namespace tandem::unity {

using RegionId = std::uint32_t;
inline constexpr RegionId kWholeMachine = 0;  // in a pipeline: all devices of a stage

struct Region {
  static constexpr std::int8_t kFree = -1;
  std::array<std::int8_t, machine::Digits::kMax> place{};  // by digit

  [[nodiscard]] bool is_free(std::size_t digit) const { return place[digit] == kFree; }
  auto operator<=>(const Region&) const = default;
};

// The regions of the two sides of a split that run side by side.
struct RegionDivision {
  RegionId first = 0, second = 0;
};

class Regions {
 public:
  // `taken`: digits that no region has; they are fixed at coordinate 0.
  explicit Regions(const machine::Digits& digits, machine::DigitMask taken = 0);

  [[nodiscard]] const Region& operator[](RegionId id) const { return regions_[id]; }
  const std::vector<RegionDivision>& get_divisions(RegionId id);

 private:
  RegionId intern(const Region& region);

  const machine::Digits& digits_;
  std::vector<Region> regions_;
  std::map<Region, RegionId> ids_;
  std::map<RegionId, std::vector<RegionDivision>> divisions_;
};

}  // namespace tandem::unity
