// Which buffers of a program a device holds a part of. Few layouts differ in who holds them, so
// that a device is asked once for each kind of layout instead of for each buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/program.h"

namespace tandem::predict {

class Holders {
 public:
  explicit Holders(const lower::Program& program);

  // By kind of layout: does the device hold a part? Devices with equal answers hold parts of the
  // same buffers.
  [[nodiscard]] std::vector<bool> of(std::int64_t device) const;
  // The same devices hold parts of buffers of the same kind.
  [[nodiscard]] std::size_t kind(lower::BufferId b) const { return kinds_[b.index()]; }

 private:
  const lower::Program& program_;
  std::vector<machine::Layout> layouts_;  // by kind; what is not idle is a replica
  std::vector<std::uint32_t> kinds_;      // by buffer
};

}  // namespace tandem::predict
