// The memory of a program on the fullest device, or on one: what lives on between steps, and the
// peak of everything when tasks run in list order and a buffer lives from its first writer to its
// last use. Where steps overlap, the peak is that of several in a row.
#pragma once

#include <array>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"

namespace tandem::sim {

struct Memory {
  Bytes persistent;  // weights and optimizer state
  Bytes peak;
  // Activations that wait for their backward pass, at the most: those there between two turns
  // (lower/order.h).
  Bytes kept;
  // What is there at the peak, by lower::BufferKind. They add up to it.
  std::array<Bytes, 5> parts = {};

  [[nodiscard]] Bytes part(lower::BufferKind kind) const {
    return parts[static_cast<std::size_t>(kind)];
  }
};

Memory memory_of(const lower::Program& program);
Memory memory_of(const lower::Program& program, std::int64_t device);

// The same of the fullest device of each of the machine's groups: what only other groups hold does
// not count. One entry where all devices are equal.
std::vector<Memory> memory_by_group(const lower::Program& program, const machine::Machine& machine);

}  // namespace tandem::sim
