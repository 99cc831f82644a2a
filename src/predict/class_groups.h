// Which classes of devices take part in one move, looked up once. A class is told by its
// coordinates in some digits of the machine, and its number is their mixed radix; until classes are
// joined that do the same, which then have one number.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "machine/digits.h"

namespace tandem::predict {

class ClassGroups {
 public:
  ClassGroups(const machine::Digits& digits, machine::DigitMask class_digits);

  // Classes with the same of these numbers, by class and counted in their order, are one from now
  // on. Those of a group of some are to be joined with those of a group of the others.
  void join(const std::vector<std::uint32_t>& joined);
  [[nodiscard]] std::size_t count() const { return devices_.size(); }
  // The first device of a class, which stands for it.
  [[nodiscard]] std::int64_t device(std::size_t number) const { return devices_[number]; }
  // The mixed radices of the coordinates of its devices.
  [[nodiscard]] const std::vector<std::uint32_t>& told(std::size_t number) const {
    return told_[number];
  }
  // The class of the device that stands where this one does.
  [[nodiscard]] std::size_t class_of(std::int64_t device) const {
    return classes_[static_cast<std::size_t>(device)];
  }
  // The class of the member of rank `rank` in the group of a class's device over `mask`, in
  // whichever micro-batch.
  [[nodiscard]] std::size_t member(std::size_t number, machine::DigitMask mask,
                                   std::int64_t rank) const {
    return class_of(digits_.member(device(number), mask, rank) % digits_.devices());
  }
  // The classes that differ from this one in digits of `mask` only, itself among them, in order.
  const std::vector<std::uint32_t>& of(std::size_t number, machine::DigitMask mask);

 private:
  struct Grouping {
    std::vector<std::size_t> group_of;  // by class
    std::vector<std::vector<std::uint32_t>> groups;
  };
  [[nodiscard]] Grouping made(machine::DigitMask mask) const;

  const machine::Digits& digits_;
  machine::DigitMask class_digits_;
  std::vector<std::int64_t> devices_;             // by class
  std::vector<std::vector<std::uint32_t>> told_;  // by class
  std::vector<std::uint32_t> classes_;            // by device
  std::map<machine::DigitMask, Grouping> groupings_;
};

}  // namespace tandem::predict
