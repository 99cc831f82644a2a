#include "machine/digits.h"

#include "base/check.h"

namespace tandem::machine {

Digits::Digits(const Machine& machine) {
  for (std::size_t level = 0; level < machine.levels.size(); ++level) {
    std::int64_t rest = machine.levels[level].count;
    for (std::int64_t p = 2; p * p <= rest; ++p) {
      for (; rest % p == 0; rest /= p) digits_.push_back({level, p});
    }
    if (rest > 1) digits_.push_back({level, rest});
  }
  // kMaxDevices keeps any machine that was parsed below this.
  static_assert(kMaxDevices <= std::int64_t{1} << kMax);
  CHECK(count() <= kMax, machine.name, count());
}

std::int64_t Digits::group_size(DigitMask mask) const {
  std::int64_t size = 1;
  for (std::size_t i = 0; i < count(); ++i) {
    if ((mask >> i & 1U) != 0) size *= digits_[i].size;
  }
  return size;
}

std::int64_t Digits::group_size(DigitMask mask, std::size_t level) const {
  std::int64_t size = 1;
  for (std::size_t i = 0; i < count(); ++i) {
    if ((mask >> i & 1U) != 0 && digits_[i].level == level) size *= digits_[i].size;
  }
  return size;
}

std::vector<std::int64_t> Digits::coordinates(std::int64_t device) const {
  std::vector<std::int64_t> out(count());
  for (std::size_t i = count(); i-- > 0;) {
    out[i] = device % digits_[i].size;
    device /= digits_[i].size;
  }
  return out;
}

std::int64_t Digits::rank_in_group(std::int64_t device, DigitMask mask) const {
  std::int64_t rank = 0;
  std::int64_t weight = 1;
  for (std::size_t i = count(); i-- > 0;) {
    const auto size = digits_[i].size;
    if ((mask >> i & 1U) != 0) {
      rank += device % size * weight;
      weight *= size;
    }
    device /= size;
  }
  return rank;
}

std::vector<std::int64_t> Digits::group(std::int64_t device, DigitMask mask) const {
  // Digits are added from the outermost, each one subdividing the ranks so far.
  std::vector<std::int64_t> members = {0};
  std::int64_t stride = devices();
  for (std::size_t i = 0; i < count(); ++i) {
    const auto size = digits_[i].size;
    stride /= size;
    const bool inside = (mask >> i & 1U) != 0;
    const auto own = device / stride % size;
    std::vector<std::int64_t> next;
    for (const auto base : members) {
      for (std::int64_t c = inside ? 0 : own; c < (inside ? size : own + 1); ++c) {
        next.push_back(base + c * stride);
      }
    }
    members = std::move(next);
  }
  return members;
}

}  // namespace tandem::machine
