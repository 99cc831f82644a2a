#include "machine/digits.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "machine/peak.h"

namespace tandem::machine {

Digits::Digits(const Machine& machine, std::int64_t micro_batches) : micro_batches_(micro_batches) {
  CHECK(micro_batches >= 1, micro_batches);
  if (micro_batches > 1) digits_.push_back({kTimeLevel, micro_batches});
  for (std::size_t level = 0; level < machine.levels.size(); ++level) {
    std::int64_t rest = machine.levels[level].count;
    for (std::int64_t p = 2; p * p <= rest; ++p) {
      for (; rest % p == 0; rest /= p) digits_.push_back({level, p});
    }
    if (rest > 1) digits_.push_back({level, rest});
  }
  // kMaxDevices keeps every parsed machine below this limit, with one digit left for time.
  static_assert(kMaxDevices <= std::int64_t{1} << (kMax - 1));
  CHECK(count() <= kMax, machine.name, count());
  strides_.resize(count());
  std::int64_t stride = 1;
  for (std::size_t i = count(); i-- > 0;) {
    strides_[i] = stride;
    stride *= digits_[i].size;
  }
  std::int64_t end = 0;
  for (const auto& group : machine.groups) {
    end += group.units * machine.devices_below(0);
    auto& speed = groups_.emplace_back(Group{end, {}}).speed;
    for (std::size_t t = 0; t < kDTypeNames.size(); ++t) {
      const auto dtype = static_cast<DType>(t);
      const auto peak = group.device.peak.at(find_peak_type(group.device, dtype));
      speed[dtype] = peak.value * group.device.compute_utilization;
    }
  }
}

double Digits::speed(std::int64_t device, DType dtype) const {
  for (const auto& group : groups_) {
    if (device >= group.end) continue;
    return group.speed.at(dtype);
  }
  return 1;
}

std::int64_t Digits::group_size(DigitMask mask) const {
  std::int64_t size = 1;
  for (auto left = mask & all(); left != 0; left &= left - 1) {
    size *= digits_[static_cast<std::size_t>(std::countr_zero(left))].size;
  }
  return size;
}

std::int64_t Digits::group_size(DigitMask mask, std::size_t level) const {
  std::int64_t size = 1;
  for (auto left = mask & all(); left != 0; left &= left - 1) {
    const auto& digit = digits_[static_cast<std::size_t>(std::countr_zero(left))];
    if (digit.level == level) size *= digit.size;
  }
  return size;
}

std::int64_t Digits::rank_in_group(std::int64_t slot, DigitMask mask) const {
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < count(); ++i) {
    if ((mask >> i & 1U) != 0) rank = rank * digits_[i].size + coordinate(slot, i);
  }
  return rank;
}

std::int64_t Digits::member(std::int64_t slot, DigitMask mask, std::int64_t rank) const {
  for (std::size_t i = count(); i-- > 0;) {
    if ((mask >> i & 1U) == 0) continue;
    slot += (rank % digits_[i].size - coordinate(slot, i)) * strides_[i];
    rank /= digits_[i].size;
  }
  return slot;
}

std::vector<std::int64_t> Digits::group(std::int64_t slot, DigitMask mask) const {
  std::int64_t first = slot;
  for (std::size_t i = 0; i < count(); ++i) {
    if ((mask >> i & 1U) != 0) first -= coordinate(slot, i) * strides_[i];
  }
  // Digits are added from the outermost on; each one subdivides the ranks so far.
  std::vector<std::int64_t> members = {first};
  for (std::size_t i = 0; i < count(); ++i) {
    if ((mask >> i & 1U) == 0) continue;
    std::vector<std::int64_t> next;
    next.reserve(members.size() * static_cast<std::size_t>(digits_[i].size));
    for (const auto base : members) {
      for (std::int64_t c = 0; c < digits_[i].size; ++c) next.push_back(base + c * strides_[i]);
    }
    members = std::move(next);
  }
  return members;
}

DigitMask find_group_digits(const Machine& machine, const Digits& digits) {
  std::vector<std::int64_t> bounds;  // first device of each group
  std::int64_t first = 0;
  for (const auto& group : machine.groups) {
    bounds.push_back(first);
    first += group.units * machine.devices_below(0);
  }
  DigitMask mask = 0;
  std::int64_t block = digits.devices();  // number of devices that agree in the digits taken
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if ((digits.time() >> i & 1U) != 0) continue;
    if (std::ranges::all_of(bounds, [&](auto bound) { return bound % block == 0; })) break;
    mask |= DigitMask{1} << i;
    block /= digits[i].size;
  }
  return mask;
}

}  // namespace tandem::machine
