// Tells which buffers of a program a device holds a shard of. Few layouts differ in which devices
// hold them, so a device is checked once per kind of layout instead of once per buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/program.h"

namespace tandem::predict {

class Holders {
 public:
  explicit Holders(const lower::Program& program);

  // Returns, by kind of layout, whether `device` holds a shard. Devices with equal results hold
  // shards of the same buffers.
  [[nodiscard]] std::vector<bool> find_held_kinds(std::int64_t device) const;
  // Returns the kind of buffer `b`. The same devices hold shards of all buffers of one kind.
  [[nodiscard]] std::size_t kind(lower::BufferId b) const { return kinds_[b.index()]; }

 private:
  const lower::Program& program_;
  std::vector<machine::Layout> layouts_;  // by kind; all digits that are not idle are replicas
  std::vector<std::uint32_t> kinds_;      // by buffer
};

}  // namespace tandem::predict
