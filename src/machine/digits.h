// The devices of a machine as mixed-radix numbers. Each level's count is split into prime factors,
// outermost level first; each factor is a digit (a mesh axis factor; Shardy: a sub-axis). summit:8
// has the digits node 2, node 2, node 2, socket 2, gpu 3; device 47 is 1 1 1 1 2. A layout
// (machine/layout.h) says what each digit does to a tensor.
//
// If a step runs in micro-batches, their number is one more digit before all others, called time. A
// tensor cut along time exists piece by piece. A replica over time is the same in every
// micro-batch. A partial sum over time is accumulated. A *slot* is a device in one micro-batch; the
// first `devices()` slots are the devices in the first micro-batch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "machine/machine.h"

namespace tandem::machine {

using DigitMask = std::uint32_t;
inline bool has_digit(DigitMask mask, std::size_t digit) { return ((mask >> digit) & 1U) != 0; }
inline DigitMask bit(std::size_t digit) { return DigitMask{1} << digit; }

struct Digit {
  std::size_t level = 0;  // index of the machine's level; kTimeLevel for the micro-batches
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
  // Returns the digit of the micro-batches, or 0 if there is only one micro-batch.
  [[nodiscard]] DigitMask time() const { return micro_batches_ > 1 ? 1 : 0; }
  // Returns the digits of the machine, without time.
  [[nodiscard]] DigitMask space() const { return all() & ~time(); }
  [[nodiscard]] std::int64_t micro_batches() const { return micro_batches_; }
  // Returns the number of slots that differ only in the digits of `mask`.
  [[nodiscard]] std::int64_t group_size(DigitMask mask) const;
  // Does the same as group_size(mask), but counts only the digits of `level`.
  [[nodiscard]] std::int64_t group_size(DigitMask mask, std::size_t level) const;
  [[nodiscard]] std::int64_t devices() const { return group_size(space()); }
  [[nodiscard]] std::int64_t slot(std::int64_t device, std::int64_t micro_batch) const {
    return micro_batch * devices() + device;
  }

  [[nodiscard]] std::int64_t coordinate(std::int64_t slot, std::size_t digit) const {
    return slot / strides_[digit] % digits_[digit].size;
  }
  // Returns the position of `slot` in its group: the mixed-radix number of its digits in `mask`.
  [[nodiscard]] std::int64_t rank_in_group(std::int64_t slot, DigitMask mask) const;
  // Returns the slot at position `rank` of the group of `slot` over `mask`.
  [[nodiscard]] std::int64_t member(std::int64_t slot, DigitMask mask, std::int64_t rank) const;
  // Returns the coordinate in `digit` of the group members at position `rank`, in groups over
  // `mask`.
  [[nodiscard]] std::int64_t coordinate_of_rank(std::int64_t rank, DigitMask mask,
                                                std::size_t digit) const {
    const auto inner = mask & ~((DigitMask{2} << digit) - 1);
    return rank / group_size(inner) % digits_[digit].size;
  }
  [[nodiscard]] bool has_equal_devices() const { return groups_.empty(); }
  // Returns the operations per second that a device reaches at most, or 1 if all devices are equal.
  [[nodiscard]] double speed(std::int64_t device, DType dtype) const;
  // Returns the slots that share all digits of `slot` outside `mask`, ordered by rank.
  [[nodiscard]] std::vector<std::int64_t> group(std::int64_t slot, DigitMask mask) const;

 private:
  std::vector<Digit> digits_;
  std::vector<std::int64_t> strides_;  // step of the slot number per unit of a digit
  std::int64_t micro_batches_ = 1;
  struct Group {
    std::int64_t end = 0;  // first device number after the group
    std::map<DType, double> speed;
  };
  std::vector<Group> groups_;  // empty if all devices are equal
};

// Returns the outermost digits that determine a device's group: devices that agree in them are in
// the same group. Returns 0 if all devices are equal.
DigitMask find_group_digits(const Machine& machine, const Digits& digits);

}  // namespace tandem::machine
