// The tasks of a folded network's program by section, with all that is needed to time them. The
// data is flat, so that a section can be timed once for each layer that it stands for.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"
#include "predict/durations.h"
#include "predict/fold/division.h"

namespace tandem::predict {

// Number of phases: those of lower::Phase, and gradient synchronization after the backward pass if
// the software does not overlap them.
inline constexpr std::size_t kParts = 4;
inline constexpr std::size_t kSynchronize = 3;

// Number of kinds by which times are summed: "compute", "embedding", then the collectives.
inline constexpr std::size_t kKinds = 2 + static_cast<std::size_t>(machine::Step::kHaloReduce) + 1;
std::string kind_name(std::size_t kind);
inline constexpr bool computes(std::size_t kind) { return kind < 2; }

// A task and its time. Its buffers are numbered per section and phase (`Dataflow::uses`).
struct TimedTask {
  double duration = 0;  // seconds
  double dispatch = 0;  // time of the host before it
  std::uint8_t kind = 0;
  std::uint8_t stream = 0;
  lower::When when = lower::When::kEach;
  bool waits : 1 = false;        // whether it reads results of the section's input
  bool accumulates : 1 = false;  // whether it accumulates gradients over micro-batches
  std::uint32_t task = 0;        // index in the program
  std::uint32_t first_use = 0;   // index in `uses` of its reads, followed by its writes
  std::uint16_t reads = 0;
  std::uint16_t writes = 0;
};
static_assert(sizeof(TimedTask) == 32);

// Dependencies between the tasks of one phase of one run. Buffers are numbered as buffer slots.
struct Dataflow {
  std::vector<std::uint32_t> uses;            // buffer slots
  std::uint32_t slots = 0;                    // number of buffer slots
  std::vector<std::uint32_t> from_neighbour;  // slots that the run before writes
  std::vector<std::uint32_t> to_neighbour;    // slots that the next run reads
  // Weights that this run gathers for the backward pass of the next run, and those that the run
  // before gathered for this one. Each has its own time, independent of the section's input. Equal
  // layers list them in the same order.
  std::vector<std::uint32_t> gathered_for_next, gathered_before;
  std::vector<std::uint32_t> gradients;  // slots that updates read
  bool begins_without_input = false;     // whether the first task needs none of `from_neighbour`
};

// One phase of one run. Copies with new times share the dataflow.
struct SectionPart {
  std::vector<TimedTask> tasks;
  std::shared_ptr<const Dataflow> flow;
};

// Total seconds of tasks, as if they ran one after another.
struct Sums {
  std::array<double, kKinds> each{};  // by kind: tasks of every micro-batch
  std::array<double, kKinds> once{};  // by kind: additional tasks of the first or last micro-batch
  double updates = 0;
};

// A communication task and the devices that take part.
struct TimedCollective {
  std::size_t part = 0, run = 0, task = 0;
  machine::Step kind{};
  machine::DigitMask digits = 0;
  Bytes bytes;
  bool joined = false;  // part of the one collective of all gradients
};

// Tasks of all runs, with the software's times.
struct Sections {
  std::size_t streams = 1;  // compute, and one for each level
  double micro_batch = 0;   // machine::Software::micro_batch: wait of the host
  double step = 0;
  double interference = 0;
  bool takes_host = false;  // whether the host takes time to dispatch tasks or to wait
  std::array<std::vector<SectionPart>, kParts> parts;  // by phase, then by run
  std::vector<TimedCollective> collectives;
  std::vector<double> model_flops;  // by run: all devices and micro-batches
  std::vector<Sums> sums;           // by run

  [[nodiscard]] std::size_t runs() const { return sums.size(); }
  [[nodiscard]] bool has_tasks(std::size_t part) const;

  // Computes `sums` and `takes_host` from the tasks.
  void sum_up();
  // Returns the sums of a stage that has `counts` of each run.
  [[nodiscard]] Sums sum_stage(const RunCounts& counts) const;
};

// Returns the place of each task of a folded network's program, given the places of its nodes
// (find_places).
std::vector<SectionPlace> find_task_places(const lower::Program& program,
                                           const std::vector<SectionPlace>& place_of_node, Cut cut);

// Returns, by task, whether it belongs to `run` and is needed if a stage has no other piece of this
// section. Recomputation for the backward pass of later pieces only is not needed.
std::vector<bool> select_run_tasks(const Run& run, const lower::Program& program,
                                   const std::vector<SectionPlace>& place_of_task);

// Returns the timed sections of a folded network's program with one stage. `runs` are
// whole_sections or list_runs.
Sections time_sections(const lower::Program& program, const machine::Machine& machine,
                       const std::vector<SectionPlace>& place_of_task, const std::vector<Run>& runs,
                       Operations& known);

// Returns `sections` with the times of `program`, which has the same tasks with other extents
// (lower/resize_program.h).
Sections retime_sections(Sections sections, const lower::Program& program,
                         const machine::Machine& machine, Operations& known);

}  // namespace tandem::predict
