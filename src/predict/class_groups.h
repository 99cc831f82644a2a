// Classes of devices and the groups in which they take part in moves, looked up once per digit
// mask. At first a class is the set of devices that agree in `class_digits`. Its number is the
// mixed radix of these coordinates. After `join`, equivalent classes share one number.
//
// Example: 2 nodes of 4 GPUs, where class_digits is the node's digit. Class 0 has devices 0 to 3,
// and class 1 has 4 to 7. The group of class 0 over the nodes is {0, 1}, over the GPUs it is {0}.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "machine/digits.h"

namespace tandem::predict {

class ClassGroups {
 public:
  ClassGroups(const machine::Digits& digits, machine::DigitMask class_digits);

  // Joins all classes with the same number in `joined`. `joined` is indexed by class, and numbers
  // first occur in rising order. If two classes are joined, the classes that they form groups with
  // must be joined likewise.
  void join(const std::vector<std::uint32_t>& joined);
  [[nodiscard]] std::size_t count() const { return devices_.size(); }
  // Returns the first device of class `number`, which represents the class.
  [[nodiscard]] std::int64_t device(std::size_t number) const { return devices_[number]; }
  // Returns the original numbers of the classes that were joined into class `number`.
  [[nodiscard]] const std::vector<std::uint32_t>& joined_classes(std::size_t number) const {
    return joined_classes_[number];
  }
  // Returns the class of `device`.
  [[nodiscard]] std::size_t get_class(std::int64_t device) const {
    return classes_[static_cast<std::size_t>(device)];
  }
  // Returns the class of the member with rank `rank` in the group over `mask` that contains the
  // device of class `number`. The result is the same for all micro-batches.
  [[nodiscard]] std::size_t get_member_class(std::size_t number, machine::DigitMask mask,
                                             std::int64_t rank) const {
    return get_class(digits_.member(device(number), mask, rank) % digits_.devices());
  }
  // Returns, sorted, the classes with a device in the group over `mask` of class `number`,
  // including `number` itself.
  const std::vector<std::uint32_t>& get_group(std::size_t number, machine::DigitMask mask);

 private:
  struct Grouping {
    std::vector<std::size_t> group_of;  // by class
    std::vector<std::vector<std::uint32_t>> groups;
  };
  [[nodiscard]] Grouping make_grouping(machine::DigitMask mask) const;

  const machine::Digits& digits_;
  machine::DigitMask class_digits_;
  std::vector<std::int64_t> devices_;                       // by class
  std::vector<std::vector<std::uint32_t>> joined_classes_;  // by class
  std::vector<std::uint32_t> classes_;                      // by device
  std::map<machine::DigitMask, Grouping> groupings_;
};

}  // namespace tandem::predict
