#include "predict/class_groups.h"

#include <algorithm>

namespace tandem::predict {

using machine::DigitMask;

ClassGroups::ClassGroups(const machine::Digits& digits, DigitMask class_digits)
    : digits_(digits), class_digits_(class_digits), devices_(digits.group(0, class_digits)) {
  const auto devices = static_cast<std::size_t>(digits.devices());
  classes_.resize(devices);
  for (std::size_t c = 0; c < devices_.size(); ++c) {
    joined_classes_.push_back({static_cast<std::uint32_t>(c)});
    for (auto device : digits.group(devices_[c], digits.space() & ~class_digits)) {
      classes_[static_cast<std::size_t>(device)] = static_cast<std::uint32_t>(c);
    }
  }
}

void ClassGroups::join(const std::vector<std::uint32_t>& joined) {
  std::vector<std::int64_t> devices;
  std::vector<std::vector<std::uint32_t>> told;
  for (std::size_t c = 0; c < joined.size(); ++c) {
    if (joined[c] == devices.size()) {
      devices.push_back(devices_[c]);
      told.emplace_back();
    }
    auto& all = told[joined[c]];
    all.insert(all.end(), joined_classes_[c].begin(), joined_classes_[c].end());
  }
  for (auto& c : classes_) c = joined[c];
  devices_ = std::move(devices);
  joined_classes_ = std::move(told);
  groupings_.clear();
}

const std::vector<std::uint32_t>& ClassGroups::get_group(std::size_t number, DigitMask mask) {
  mask &= class_digits_;
  auto at = groupings_.find(mask);
  if (at == groupings_.end()) at = groupings_.emplace(mask, make_grouping(mask)).first;
  const auto& grouping = at->second;
  return grouping.groups[grouping.group_of[number]];
}

ClassGroups::Grouping ClassGroups::make_grouping(DigitMask mask) const {
  constexpr auto kNone = static_cast<std::size_t>(-1);
  Grouping out;
  out.group_of.assign(devices_.size(), kNone);
  for (std::size_t c = 0; c < devices_.size(); ++c) {
    if (out.group_of[c] != kNone) continue;
    std::vector<std::uint32_t> group;
    for (auto device : digits_.group(devices_[c], mask)) {
      group.push_back(static_cast<std::uint32_t>(get_class(device)));
    }
    std::ranges::sort(group);
    group.erase(std::unique(group.begin(), group.end()), group.end());  // clang 14 lacks subranges
    for (auto other : group) out.group_of[other] = out.groups.size();
    out.groups.push_back(std::move(group));
  }
  return out;
}

}  // namespace tandem::predict
