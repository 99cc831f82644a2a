#include "sim/class_groups.h"

#include <unordered_map>

namespace tandem::sim {

using machine::DigitMask;

ClassGroups::ClassGroups(const machine::Digits& digits, DigitMask class_digits)
    : digits_(digits), class_digits_(class_digits), devices_(digits.group(0, class_digits)) {
  const auto devices = static_cast<std::size_t>(digits.devices());
  classes_.resize(devices);
  for (std::size_t c = 0; c < devices_.size(); ++c) {
    for (auto device : digits.group(devices_[c], digits.space() & ~class_digits)) {
      classes_[static_cast<std::size_t>(device)] = static_cast<std::uint32_t>(c);
    }
  }
}

const std::vector<std::uint32_t>& ClassGroups::of(std::size_t number, DigitMask mask) {
  mask &= class_digits_;
  auto at = groupings_.find(mask);
  if (at == groupings_.end()) at = groupings_.emplace(mask, made(mask)).first;
  const auto& grouping = at->second;
  return grouping.groups[grouping.group_of[number]];
}

ClassGroups::Grouping ClassGroups::made(DigitMask mask) const {
  Grouping out;
  std::unordered_map<std::int64_t, std::size_t> group_of_first;  // by its first device
  for (std::size_t c = 0; c < devices_.size(); ++c) {
    const auto first = digits_.member(devices_[c], mask, 0);
    const auto [at, fresh] = group_of_first.emplace(first, out.groups.size());
    if (fresh) out.groups.emplace_back();
    out.groups[at->second].push_back(static_cast<std::uint32_t>(c));
    out.group_of.push_back(at->second);
  }
  return out;
}

}  // namespace tandem::sim
