// The kinds of devices of a machine, each as a machine with only that kind. A stage is timed on the
// kind of its rank.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "machine/digits.h"
#include "machine/machine.h"

namespace tandem::predict {

// Kinds of devices. If all devices are equal, there is one kind. Otherwise each group is a kind.
// The last kind is `Machine::device`, the slowest. It is the kind of ranks with devices of several
// groups, which wait for the slowest device.
class DeviceKinds {
 public:
  DeviceKinds(const machine::Machine& machine, const machine::Digits& digits);

  [[nodiscard]] std::size_t count() const { return machines_.size(); }
  [[nodiscard]] const machine::Machine& machine(std::size_t kind) const { return machines_[kind]; }
  [[nodiscard]] std::size_t groups() const { return groups_; }

  struct Ranks {
    std::vector<std::uint8_t> kinds;                 // by rank
    std::vector<std::vector<std::size_t>> of_group;  // by group: ranks that have devices of it
    std::vector<double> speeds;                      // by rank: speed of its slowest device
  };
  // Returns the kinds and speeds of the ranks of a pipeline. The machine must be divisible into
  // `count` ranks.
  const Ranks& ranks(std::int64_t count, DType dtype);

 private:
  const machine::Machine& machine_;
  const machine::Digits& digits_;
  std::size_t groups_;
  std::vector<machine::Machine> machines_;
  std::map<std::int64_t, Ranks> ranks_;
};

}  // namespace tandem::predict
