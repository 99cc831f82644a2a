#include "unity/region.h"

#include <set>

namespace tandem::unity {

Regions::Regions(const machine::Digits& digits, machine::DigitMask taken) : digits_(digits) {
  Region whole;
  whole.place.fill(Region::kFree);
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (machine::has_digit(taken, i)) whole.place[i] = 0;
  }
  intern(whole);
}

RegionId Regions::intern(const Region& region) {
  const auto [at, fresh] = ids_.try_emplace(region, static_cast<RegionId>(regions_.size()));
  if (fresh) regions_.push_back(region);
  return at->second;
}

const std::vector<RegionDivision>& Regions::get_divisions(RegionId id) {
  const auto known = divisions_.find(id);
  if (known != divisions_.end()) return known->second;
  std::vector<RegionDivision> out;
  std::set<std::pair<std::size_t, std::int64_t>> seen;  // level and size
  const Region region = regions_[id];
  for (std::size_t i = 0; i < digits_.count(); ++i) {
    if (!region.is_free(i) || !seen.insert({digits_[i].level, digits_[i].size}).second) continue;
    Region first = region;
    Region second = region;
    first.place[i] = 0;
    second.place[i] = 1;
    out.push_back({intern(first), intern(second)});
  }
  return divisions_.emplace(id, std::move(out)).first->second;
}

}  // namespace tandem::unity
