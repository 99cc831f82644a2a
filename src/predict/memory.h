// The memory of a program on one device or on the fullest one: persistent bytes, and the peak.
// Tasks run in list order, and a buffer lives from its first writer to its last use. If steps
// overlap, the peak covers several consecutive steps.
//
// Example: a, b = f(a), c = g(b) take 4, 6 and 2 bytes, and none is saved for backward. While f
// runs, a and b are alive: 10 bytes, the peak. While g runs, b and c are alive: 8 bytes.
#pragma once

#include <array>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"

namespace tandem::predict {

struct Memory {
  Bytes persistent;  // weights and optimizer state
  Bytes peak;
  // Most bytes of activations that are alive between two schedule slots (lower/schedule_actions.h):
  // those saved for backward.
  Bytes saved;
  // Bytes alive at the peak, by lower::BufferKind. They sum to the peak without `unused`.
  std::array<Bytes, lower::kBufferKinds> parts = {};
  Bytes passing;            // part of the peak that is allocated and freed with every micro-batch
  Bytes unused;             // allocator overhead; part of the peak
  Bytes cache;              // inference: keys and values for later tokens; part of the peak
  std::int64_t device = 0;  // device that these numbers are of
  std::size_t moment = 0;   // index of the peak in compute_memory_over_time

  [[nodiscard]] Bytes part(lower::BufferKind kind) const {
    return parts[static_cast<std::size_t>(kind)];
  }
};

// Adds the overhead of the software's allocator (fragmentation) to `memory`.
Memory add_fragmentation(Memory memory, const machine::Device& device);

Memory compute_memory(const lower::Program& program);
Memory compute_memory(const lower::Program& program, std::int64_t device);

// Memory of a device while it runs one task; moments are in the order of execution.
struct Moment {
  std::uint32_t task = 0;
  std::int64_t micro_batch = 0;
  std::int64_t step = 0;
  std::array<Bytes, lower::kBufferKinds> parts = {};  // as in Memory
};
std::vector<Moment> compute_memory_over_time(const lower::Program& program, std::int64_t device);

// A buffer that is alive at a moment and freed within the step.
struct HeldBuffer {
  lower::BufferId buffer;
  Bytes bytes;
};
std::vector<HeldBuffer> list_held_buffers(const lower::Program& program, std::int64_t device,
                                          std::size_t moment);

// Returns the memory of the fullest device of each machine group over the first `micro_batches`
// micro-batches. Buffers that only other groups hold do not count. Returns one entry if all devices
// are equal.
std::vector<Memory> compute_memory_by_group(const lower::Program& program,
                                            const machine::Machine& machine,
                                            std::int64_t micro_batches);
// Returns the memory of the fullest device of each pipeline rank; one entry without a pipeline.
std::vector<Memory> compute_memory_by_rank(const lower::Program& program,
                                           const machine::Machine& machine);

}  // namespace tandem::predict
