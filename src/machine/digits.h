// A machine's devices as digits: every level's count in prime factors, outermost level first.
// summit:8 has the digits node 2, node 2, node 2, socket 2, gpu 3; device 47 is 1 1 1 1 2.
// A layout (machine/layout.h) says what each digit does to a tensor.
//
// Where a step runs in micro-batches, these are one more digit, before all others: time. A tensor
// cut along it is there piece by piece, a replica over it is the same in every micro-batch, a
// partial sum over it is accumulated. So a *slot* is a device in a micro-batch; the first
// `devices()` slots are the devices in the first one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "machine/machine.h"

namespace tandem::machine {

using DigitMask = std::uint32_t;
inline bool has(DigitMask mask, std::size_t digit) { return ((mask >> digit) & 1U) != 0; }
inline DigitMask bit(std::size_t digit) { return DigitMask{1} << digit; }

struct Digit {
  std::size_t level = 0;  // kTimeLevel for the micro-batches
  std::int64_t size = 1;
};
inline constexpr std::size_t kTimeLevel = static_cast<std::size_t>(-1);

class Digits {
 public:
  static constexpr std::size_t kMax = 21;

  explicit Digits(const Machine& machine, std::int64_t micro_batches = 1);

  [[nodiscard]] std::size_t count() const { return digits_.size(); }
  [[nodiscard]] const Digit& operator[](std::size_t i) const { return digits_[i]; }
  [[nodiscard]] DigitMask all() const { return (DigitMask{1} << count()) - 1; }
  // The digit of the micro-batches; 0 where there is one micro-batch.
  [[nodiscard]] DigitMask time() const { return micro_batches_ > 1 ? 1 : 0; }
  // Those of the machine.
  [[nodiscard]] DigitMask space() const { return all() & ~time(); }
  [[nodiscard]] std::int64_t micro_batches() const { return micro_batches_; }
  // How many slots differ in the digits of `mask` only.
  [[nodiscard]] std::int64_t group_size(DigitMask mask) const;
  // The same, counting only the digits of one level.
  [[nodiscard]] std::int64_t group_size(DigitMask mask, std::size_t level) const;
  [[nodiscard]] std::int64_t devices() const { return group_size(space()); }
  [[nodiscard]] std::int64_t slot(std::int64_t device, std::int64_t micro_batch) const {
    return micro_batch * devices() + device;
  }

  [[nodiscard]] std::int64_t coordinate(std::int64_t slot, std::size_t digit) const {
    return slot / strides_[digit] % digits_[digit].size;
  }
  // The position of `slot` within its group: the mixed radix of the digits in `mask`.
  [[nodiscard]] std::int64_t rank_in_group(std::int64_t slot, DigitMask mask) const;
  // The member of rank `rank` of the group of `slot` over `mask`.
  [[nodiscard]] std::int64_t member(std::int64_t slot, DigitMask mask, std::int64_t rank) const;
  // The coordinate in `digit` of the members of rank `rank` of groups over `mask`.
  [[nodiscard]] std::int64_t coordinate_of_rank(std::int64_t rank, DigitMask mask,
                                                std::size_t digit) const {
    const auto inner = mask & ~((DigitMask{2} << digit) - 1);
    return rank / group_size(inner) % digits_[digit].size;
  }
  [[nodiscard]] bool has_equal_devices() const { return groups_.empty(); }
  // What the devices' software does (machine.h).
  [[nodiscard]] bool stores_zeros() const { return stores_zeros_; }
  [[nodiscard]] bool sums_rows() const { return sums_rows_; }
  [[nodiscard]] bool updates_in_products() const { return updates_in_products_; }
  [[nodiscard]] bool updates_in_tables() const { return updates_in_tables_; }
  [[nodiscard]] bool narrow_exchange() const { return narrow_exchange_; }
  [[nodiscard]] bool frees_at_last_use() const { return frees_at_last_use_; }
  [[nodiscard]] bool remakes_whole() const { return remakes_whole_; }
  // Operations a second that a device reaches at most; 1 where all are equal.
  [[nodiscard]] double speed(std::int64_t device, DType dtype) const;
  // The slots that share all of `slot`'s other digits, by their rank in the group.
  [[nodiscard]] std::vector<std::int64_t> group(std::int64_t slot, DigitMask mask) const;

 private:
  std::vector<Digit> digits_;
  std::vector<std::int64_t> strides_;  // what 1 more in a digit adds to the slot's number
  std::int64_t micro_batches_ = 1;
  struct Group {
    std::int64_t end = 0;  // of its devices' numbers
    std::map<DType, double> speed;
  };
  std::vector<Group> groups_;  // empty where all devices are equal
  bool stores_zeros_ = false;
  bool sums_rows_ = false;
  bool updates_in_products_ = false;
  bool updates_in_tables_ = false;
  bool narrow_exchange_ = false;
  bool frees_at_last_use_ = false;
  bool remakes_whole_ = false;
};

// The outermost digits that tell in which group a device is: devices alike in these are of one
// group. None where all devices are equal.
DigitMask group_digits(const Machine& machine, const Digits& digits);

}  // namespace tandem::machine
