// The tasks of a folded network's program, section by section, with what their timing needs: flat,
// so that the same section can be timed as often as there are layers like it.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"
#include "predict/durations.h"
#include "predict/fold/division.h"

namespace tandem::predict {

// Those of lower::Part, and what runs after the backward pass where software does not overlap the
// summing up of gradients with it.
inline constexpr std::size_t kParts = 4;
inline constexpr std::size_t kSynchronize = 3;

// What time is summed up under, in this order: "compute", "embedding", then the collectives.
inline constexpr std::size_t kKinds = 2 + static_cast<std::size_t>(machine::Step::kHaloReduce) + 1;
std::string_view kind_name(std::size_t kind);
inline constexpr bool computes(std::size_t kind) { return kind < 2; }

// A task. Its buffers are slots of its section and part: how late each is there.
struct TimedTask {
  double duration = 0;  // seconds
  double dispatch = 0;  // of the host, before it
  std::uint8_t kind = 0;
  std::uint8_t stream = 0;
  lower::When when = lower::When::kEach;
  bool waits : 1 = false;        // does it read what is made of the section's input?
  bool accumulates : 1 = false;  // gradients over micro-batches
  std::uint32_t task = 0;        // of the program
  std::uint32_t first_use = 0;   // of `uses`: reads, then writes
  std::uint16_t reads = 0;
  std::uint16_t writes = 0;
};
static_assert(sizeof(TimedTask) == 32);

// What the tasks of one part of one run wait for, by slots.
struct Dataflow {
  std::vector<std::uint32_t> uses;            // slots
  std::uint32_t slots = 0;                    // how many
  std::vector<std::uint32_t> from_neighbour;  // slots that what comes before makes
  std::vector<std::uint32_t> to_neighbour;    // slots that what comes after reads
  // Weights that are gathered for the backward pass of what comes after, or were by what comes
  // before: these are there one by one, whenever its input is. In the same order for equal layers.
  std::vector<std::uint32_t> gathered_for_next, gathered_before;
  std::vector<std::uint32_t> gradients;  // slots that updates read
  bool begins_without_input = false;     // does the first task need nothing of those?
};

// One part of one run. Copies that are timed anew share the dataflow.
struct SectionPart {
  std::vector<TimedTask> tasks;
  std::shared_ptr<const Dataflow> flow;
};

// Seconds of a run's tasks as if one after the other.
struct Sums {
  std::array<double, kKinds> each{};  // by kind, in every micro-batch
  std::array<double, kKinds> once{};  // by kind, what the first or the last has beside
  double updates = 0;
};

// A task that communicates, and between whom.
struct Collective {
  std::size_t part = 0, run = 0, task = 0;
  machine::Step kind{};
  machine::DigitMask digits = 0;
  Bytes bytes;
  bool joined = false;  // part of that of all gradients
};

struct Sections {
  std::size_t streams = 1;  // compute, and one for each level
  double micro_batch = 0;   // machine::Software's waits
  double step = 0;
  double interference = 0;
  bool takes_host = false;  // some of its time: to dispatch tasks, or to wait
  std::array<std::vector<SectionPart>, kParts> parts;  // by run
  std::vector<Collective> collectives;
  std::vector<double> model_flops;  // by run: of all devices and micro-batches
  std::vector<Sums> sums;           // by run

  [[nodiscard]] std::size_t runs() const { return sums.size(); }
  [[nodiscard]] bool has_tasks(std::size_t part) const;

  // Makes `sums` of the parts' tasks.
  void sum_up();
};

// By task of a folded network's program, from its nodes' (places_of).
std::vector<Place> places_of_tasks(const lower::Program& program,
                                   const std::vector<Place>& place_of_node, Cut cut);

// By task, whether it is of the run and needed where a stage has nothing else of its section: what
// the backward pass makes again for later pieces is not.
std::vector<bool> tasks_of(const Run& run, const lower::Program& program,
                           const std::vector<Place>& place_of_task);

// `program` is of a folded network, in one stage; of whole sections, or of all runs of pieces.
Sections timed_sections(const lower::Program& program, const machine::Machine& machine,
                        const std::vector<Place>& place_of_task, const std::vector<Run>& runs,
                        Operations& known);

// The same from those of a program with the same tasks over other extents (lower/resize.h).
Sections timed_again(Sections sections, const lower::Program& program,
                     const machine::Machine& machine, Operations& known);

}  // namespace tandem::predict
