// The tasks of a folded network's program, section by section, with what their timing needs: flat,
// so that the same section can be timed as often as there are layers like it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "estimate/folded.h"
#include "lower/program.h"
#include "machine/machine.h"
#include "sim/durations.h"

namespace tandem::estimate {

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
  std::uint16_t kind = 0;
  std::uint16_t stream = 0;
  lower::When when = lower::When::kEach;
  std::uint32_t first_use = 0;  // of `uses`: reads, then writes
  std::uint16_t reads = 0;
  std::uint16_t writes = 0;
};

// One part of one section.
struct SectionPart {
  std::vector<TimedTask> tasks;
  std::vector<std::uint32_t> uses;            // slots
  std::uint32_t slots = 0;                    // how many
  std::vector<std::uint32_t> from_neighbour;  // slots that the section before makes
  std::vector<std::uint32_t> to_neighbour;    // slots that the section after reads
  std::vector<std::uint32_t> gradients;       // slots that updates read
};

// Seconds of a section's tasks as if one after the other.
struct Sums {
  std::array<double, kKinds> each{};      // by kind, in every micro-batch
  std::array<double, kKinds> once{};      // by kind, what the first or the last has beside
  std::array<double, kParts> dispatch{};  // of the host, by part, in every micro-batch
  double updates = 0;
};

// A task that communicates, and between whom.
struct Collective {
  std::size_t part = 0, section = 0, task = 0;
  machine::Step kind{};
  machine::DigitMask digits = 0;
  Bytes bytes;
};

struct Sections {
  std::size_t streams = 1;  // compute, and one for each level
  double micro_batch = 0;   // machine::Software's waits
  double step = 0;
  double interference = 0;
  bool takes_host = false;  // some of its time: to dispatch tasks, or to wait
  std::array<std::array<SectionPart, kSections>, kParts> parts;
  std::vector<Collective> collectives;
  std::vector<std::uint8_t> of_task;  // by task of the program: part * kSections + section
  std::array<double, kSections> model_flops{};  // of all devices and micro-batches
  std::array<Sums, kSections> sums{};

  [[nodiscard]] const SectionPart& part(lower::Part p, Section s) const {
    return parts[static_cast<std::size_t>(p)][static_cast<std::size_t>(s)];
  }
  [[nodiscard]] bool has_tasks(std::size_t part) const;

  // Makes `sums` of the parts' tasks.
  void sum_up();
};

// By task of a folded network's program, from its nodes' (sections_of).
std::vector<Section> sections_of_tasks(const lower::Program& program,
                                       const std::vector<Section>& section_of_node);

// `program` is of a folded network, in one stage.
Sections timed_sections(const lower::Program& program, const machine::Machine& machine,
                        const std::vector<Section>& section_of_task, sim::Operations& known);

// The same from those of a program with the same tasks over other extents (lower/resize.h).
Sections timed_again(Sections sections, const lower::Program& program,
                     const machine::Machine& machine, sim::Operations& known);

}  // namespace tandem::estimate
