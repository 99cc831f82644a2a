// The memory of a folded network's program by section: persistent bytes, bytes that are allocated
// for the whole step, and the change in bytes during each forward and backward pass.
#pragma once

#include "lower/program.h"
#include "predict/fold/division.h"

namespace tandem::predict {

using Parts = std::array<double, lower::kBufferKinds>;  // bytes by lower::BufferKind

void add(Parts& to, const Parts& what, double times = 1);
double total(const Parts& parts);

// Sets `most` to `now` if `now` has a larger total.
void update_most(Parts& most, const Parts& now);

// Change in allocated bytes over one forward or backward pass of a run or stage: `net` at its end,
// `most` at its maximum.
struct MemoryChange {
  Parts net{};
  Parts most{};
};

// Memory of a run of pieces or of a whole stage.
struct HeldMemory {
  Parts persistent{};
  Parts step{};       // for all micro-batches, if there are several
  Parts from_then{};  // the same, allocated when the first one starts
  MemoryChange forward, backward;
  MemoryChange last_forward;  // of the last micro-batch
  MemoryChange first, last;   // backward pass of the first and of the last micro-batch
};

// Bytes that one piece passes on to the next.
struct Boundary {
  double activation = 0;
  double gradient = 0;           // bytes of the gradient that returns
  bool copied = false;           // whether devices hold replicas of the activation
  bool gradient_copied = false;  // whether devices hold replicas of the gradient
};

// Memory of all runs of a program, and of the tensors between pieces.
struct Footprint {
  std::vector<HeldMemory> runs;
  bool several = false;                                     // several micro-batches
  std::array<std::vector<Boundary>, kSections> boundaries;  // by section, then by piece before it

  [[nodiscard]] const Boundary& get_boundary(const SectionPlace& piece) const {
    return boundaries[static_cast<std::size_t>(piece.section)][piece.piece];
  }
  // Returns the memory of a stage with `counts` of each run. `before`: tensors that it receives,
  // null for the first stage. `behind`: tensors that it sends, null for the last stage.
  [[nodiscard]] HeldMemory compute_stage_memory(const RunCounts& counts, const Boundary* before,
                                                const Boundary* behind) const;
};

// Returns the memory of `program` by run. `is_pipelined`: stages are on several ranks, which cannot
// share gathered weights.
Footprint compute_footprint(const lower::Program& program,
                            const std::vector<SectionPlace>& place_of_node,
                            const std::vector<SectionPlace>& place_of_task,
                            const std::vector<Run>& runs, bool is_pipelined);

}  // namespace tandem::predict
