#include "predict/fold/device_kinds.h"

#include <algorithm>
#include <limits>

#include "machine/submachine.h"
#include "strategies/pipeline.h"

namespace tandem::predict {

DeviceKinds::DeviceKinds(const machine::Machine& machine, const machine::Digits& digits)
    : machine_(machine), digits_(digits), groups_(std::max<std::size_t>(1, machine.groups.size())) {
  if (!machine.groups.empty()) machines_ = machine::split_by_device_kind(machine);
  machines_.push_back(machine);
  machines_.back().groups.clear();
}

const DeviceKinds::Ranks& DeviceKinds::ranks(std::int64_t count, DType dtype) {
  const auto [at, is_new] = ranks_.try_emplace(count);
  auto& out = at->second;
  if (!is_new) return out;
  const auto all = static_cast<std::size_t>(count);
  out.of_group.resize(groups_);
  if (machine_.groups.empty()) {
    out.kinds.resize(all);
    out.speeds.resize(all, 1);
    for (std::size_t r = 0; r < all; ++r) out.of_group[0].push_back(r);
    return out;
  }
  const auto weakest = static_cast<std::uint8_t>(groups_);
  constexpr std::uint8_t kNone = 0xff;
  out.kinds.resize(all, kNone);
  out.speeds.resize(all, std::numeric_limits<double>::infinity());
  const auto digits = strategies::find_rank_digits(digits_, count).value();
  for (std::int64_t d = 0; d < digits_.devices(); ++d) {
    const auto rank = static_cast<std::size_t>(digits_.rank_in_group(d, digits));
    const auto group = machine_.find_group(d);
    auto& kind = out.kinds[rank];
    kind = kind == kNone || kind == group ? static_cast<std::uint8_t>(group) : weakest;
    out.speeds[rank] = std::min(out.speeds[rank], digits_.speed(d, dtype));
    auto& ranks = out.of_group[group];
    if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  }
  return out;
}

}  // namespace tandem::predict
