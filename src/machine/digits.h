// A machine's devices as digits: every level's count in prime factors, outermost level first.
// summit:8 has the digits node 2, node 2, node 2, socket 2, gpu 3; device 47 is 1 1 1 1 2.
// A layout (machine/layout.h) says what each digit does to a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "machine/machine.h"

namespace tandem::machine {

using DigitMask = std::uint32_t;

struct Digit {
  std::size_t level = 0;
  std::int64_t size = 1;
};

class Digits {
 public:
  static constexpr std::size_t kMax = 20;

  explicit Digits(const Machine& machine);

  [[nodiscard]] std::size_t count() const { return digits_.size(); }
  [[nodiscard]] const Digit& operator[](std::size_t i) const { return digits_[i]; }
  [[nodiscard]] DigitMask all() const { return (DigitMask{1} << count()) - 1; }
  // How many devices differ in the digits of `mask` only.
  [[nodiscard]] std::int64_t group_size(DigitMask mask) const;
  // The same, counting only the digits of one level.
  [[nodiscard]] std::int64_t group_size(DigitMask mask, std::size_t level) const;
  [[nodiscard]] std::int64_t devices() const { return group_size(all()); }

  [[nodiscard]] std::vector<std::int64_t> coordinates(std::int64_t device) const;
  // The position of `device` within its group: the mixed radix of the digits in `mask`.
  [[nodiscard]] std::int64_t rank_in_group(std::int64_t device, DigitMask mask) const;
  // The devices that share all of `device`'s other digits, by their rank in the group.
  [[nodiscard]] std::vector<std::int64_t> group(std::int64_t device, DigitMask mask) const;

 private:
  std::vector<Digit> digits_;
};

}  // namespace tandem::machine
