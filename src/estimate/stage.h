// The time of a stage: a run of sections, on the compute stream and one stream for each machine
// level, as in the event simulation (sim/simulate.h). Layers are timed one by one until the next
// adds to every stream what the last did; the rest follows.
#pragma once

#include <vector>

#include "estimate/sections.h"
#include "sim/beside.h"

namespace tandem::estimate {

// How many of each section a stage has.
using SectionCounts = std::array<std::int64_t, kSections>;

// When the streams are free, in seconds; the last is the host, that dispatches tasks.
using Streams = std::vector<double>;

class StageTimer {
 public:
  // Without the host where who asks looks after it.
  StageTimer(const Sections& sections, const SectionCounts& counts, bool with_host = true);

  // One micro-batch, forward or backward, from when its input is there; returns when its output
  // is. Where there is one micro-batch it is first and last.
  double run(lower::Part part, bool first, bool last, double input, Streams& streams);

  // After the backward pass of the last micro-batch.
  void update(Streams& streams);

  [[nodiscard]] Streams idle() const { return Streams(sections_.streams + 1); }

 private:
  // When a micro-batch comes in.
  struct Turn {
    std::size_t part = 0;
    bool first = true;
    bool last = true;
  };

  double run_section(const SectionPart& part, const Turn& turn, double input, Streams& streams);
  double run_alike(std::size_t section, const Turn& turn, double input, Streams& streams);
  void go_on(std::size_t section, const Turn& turn, std::int64_t layers,
             const std::vector<double>& each, Streams& streams);
  void occupy(std::uint16_t stream, double start, double end, Streams& streams);
  void wait(double time, Streams& streams) const;

  const Sections& sections_;
  SectionCounts counts_;
  bool with_host_;
  sim::Beside beside_;
  std::vector<double> ready_;                           // by slot, of the section that runs
  double gradients_ = 0;                                // when those of the last section run are
  std::array<std::vector<double>, kSections> reduced_;  // the same, by section and layer
};

// What the host of a stage needs to dispatch a micro-batch's tasks, in seconds.
double dispatch_of(const Sections& sections, const SectionCounts& counts, lower::Part part);

// Seconds by kind of a stage's tasks, as if one after the other: in every micro-batch, and what the
// first or the last has beside.
struct Serialized {
  std::array<double, kKinds> each{};
  std::array<double, kKinds> once{};
  [[nodiscard]] double of(std::size_t kind, std::int64_t micro_batches) const {
    return each[kind] * static_cast<double>(micro_batches) + once[kind];
  }
};
Serialized serialized(const Sections& sections, const SectionCounts& counts);

}  // namespace tandem::estimate
