// The order in which each pipeline rank runs micro-batches.
//
//   4 micro-batches on 2 ranks, F forward, B backward:
//   gpipe  rank 0  F0 F1 F2 F3          B0 B1 B2 B3
//          rank 1     F0 F1 F2 F3 B0 B1 B2 B3
//   1f1b   rank 0  F0 F1       B0 F2 B1 F3 B2    B3      at most 2 in flight
//          rank 1     F0 B0 F1 B1 F2 B2 F3 B3            at most 1
//
// With delayed updates (plan::Semantics) the next step's micro-batches follow at once. The pipeline
// is filled once and never drained. U is an update; ' marks the second step:
//          rank 0  F0 F1    B0 F2 B1 F3 B2 F0' B3 U F1' B0' ...
#pragma once

#include <vector>

#include "lower/program.h"

namespace tandem::lower {

// A schedule slot: one phase of one stage, for one micro-batch of one step.
struct Action {
  std::uint16_t stage = 0;
  Phase phase = Phase::kForward;
  std::int64_t micro_batch = 0;
  std::int64_t step = 0;
  bool operator==(const Action&) const = default;
};

// Returns the schedule slots of `rank`, one of `ranks`, in `steps` steps. A step's updates come
// after its backward slots. Every stage runs its micro-batches in ascending order, forward and
// backward.
std::vector<Action> list_actions(const plan::Schedule& schedule, std::int64_t ranks,
                                 std::int64_t rank, Mode mode = Mode::kTraining,
                                 std::int64_t steps = 1);

// Does the same for only the first `micro_batches` of the program's micro-batches.
std::vector<Action> list_actions(const Program& program, std::int64_t micro_batches,
                                 std::int64_t rank, std::int64_t steps);

// Number of steps to simulate, and the one of them that represents a steady step. If steps overlap,
// that is neither the first, which fills the pipeline, nor the last, which drains it.
struct SteadySteps {
  std::int64_t simulated = 1;
  std::int64_t steady = 0;
};
inline SteadySteps choose_steady_steps(const Program& program) {
  const bool flows = program.schedule.is_delayed() && program.mode == Mode::kTraining;
  return flows ? SteadySteps{4, 2} : SteadySteps{};
}

// Returns whether the task runs in micro-batch `micro_batch` of `micro_batches`.
inline bool runs_in(const Task& task, std::int64_t micro_batch, std::int64_t micro_batches) {
  switch (task.when) {
    case When::kEach:
      return true;
    case When::kFirst:
      return micro_batch == 0;
    case When::kLast:
      return micro_batch == micro_batches - 1;
  }
  return false;
}

}  // namespace tandem::lower
