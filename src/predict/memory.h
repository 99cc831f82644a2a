// The memory of a program on the fullest device, or on one: what lives on between steps, and the
// peak of everything when tasks run in list order and a buffer lives from its first writer to its
// last use. Where steps overlap, the peak is that of several in a row.
#pragma once

#include <array>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"

namespace tandem::predict {

struct Memory {
  Bytes persistent;  // weights and optimizer state
  Bytes peak;
  // Activations that wait for their backward pass, at the most: those there between two turns
  // (lower/order.h).
  Bytes kept;
  // What is there at the peak, by lower::BufferKind. They add up to it, but for `unused`.
  std::array<Bytes, lower::kBufferKinds> parts = {};
  Bytes passing;            // of that, what comes and goes with every micro-batch
  Bytes unused;             // what an allocator holds beside, part of the peak
  Bytes cache;              // of inference: keys and values for later tokens, part of the peak
  std::int64_t device = 0;  // whose memory this is
  std::size_t moment = 0;   // of the peak: in memory_over_time

  [[nodiscard]] Bytes part(lower::BufferKind kind) const {
    return parts[static_cast<std::size_t>(kind)];
  }
};

// With what the software's allocator holds beside what is used of it.
Memory with_unused(Memory memory, const machine::Device& device);

Memory memory_of(const lower::Program& program);
Memory memory_of(const lower::Program& program, std::int64_t device);

// What a device has while it runs a task; moments are in the order of its list.
struct Moment {
  std::uint32_t task = 0;
  std::int64_t micro_batch = 0;
  std::int64_t step = 0;
  std::array<Bytes, lower::kBufferKinds> parts = {};  // as in Memory
};
std::vector<Moment> memory_over_time(const lower::Program& program, std::int64_t device);

// What is there at a moment and not between steps.
struct HeldBuffer {
  lower::BufferId buffer;
  Bytes bytes;
};
std::vector<HeldBuffer> held_at(const lower::Program& program, std::int64_t device,
                                std::size_t moment);

// The same of the fullest device of each of the machine's groups, in the first micro-batches, so
// many: what only other groups hold does not count. One entry where all devices are equal.
std::vector<Memory> memory_by_group(const lower::Program& program, const machine::Machine& machine,
                                    std::int64_t micro_batches);
// The same of the fullest device of each rank of the pipeline; one entry without a pipeline.
std::vector<Memory> memory_by_rank(const lower::Program& program, const machine::Machine& machine);

}  // namespace tandem::predict
