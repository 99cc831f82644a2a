// The kinds of devices of a machine, each as a machine of that kind alone: a stage is timed on the
// kind of its rank.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "machine/digits.h"
#include "machine/machine.h"

namespace tandem::predict {

// Equal devices are one kind. Of several groups each is one; ranks with devices of several groups
// wait for the slowest, which is `Machine::device`, the last kind.
class DeviceKinds {
 public:
  DeviceKinds(const machine::Machine& machine, const machine::Digits& digits);

  [[nodiscard]] std::size_t count() const { return machines_.size(); }
  [[nodiscard]] const machine::Machine& machine(std::size_t kind) const { return machines_[kind]; }
  [[nodiscard]] std::size_t groups() const { return groups_; }

  struct Ranks {
    std::vector<std::uint8_t> kinds;                 // by rank
    std::vector<std::vector<std::size_t>> of_group;  // by group, the ranks with devices of it
    std::vector<double> speeds;                      // by rank, of its slowest device
  };
  // Of a pipeline of so many ranks, which the machine can have.
  const Ranks& ranks(std::int64_t count, DType dtype);

 private:
  const machine::Machine& machine_;
  const machine::Digits& digits_;
  std::size_t groups_;
  std::vector<machine::Machine> machines_;
  std::map<std::int64_t, Ranks> ranks_;
};

}  // namespace tandem::predict
