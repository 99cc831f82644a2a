// The memory of a folded network's program, section by section: what lives on, what is there for
// the whole step, and how what is there for one micro-batch comes and goes.
#pragma once

#include "lower/program.h"
#include "predict/fold/division.h"

namespace tandem::predict {

using Parts = std::array<double, lower::kBufferKinds>;  // bytes, by lower::BufferKind

void add(Parts& to, const Parts& what, double times = 1);
double total(const Parts& parts);

// What there is at the fullest moment of two.
void keep_most(Parts& most, const Parts& now);

// Within one part of a section or stage: what it has added at its end, and at its fullest.
struct Change {
  Parts net{};
  Parts most{};
};

// Of a run of pieces, or of all of a stage.
struct Held {
  Parts persistent{};
  Parts step{};       // in all micro-batches, where there are several
  Parts from_then{};  // likewise, since the first of them comes in
  Change forward, backward;
  Change last_forward;  // of the last micro-batch
  Change first, last;   // the first and the last micro-batch's backward pass
};

// What goes from one piece to the next, in bytes.
struct Boundary {
  double activation = 0;
  double gradient = 0;           // what comes back
  bool copied = false;           // do several devices hold the same of the activation,
  bool gradient_copied = false;  // of the gradient?
};

struct Footprint {
  std::vector<Held> runs;
  bool several = false;                                     // micro-batches
  std::array<std::vector<Boundary>, kSections> boundaries;  // by section, behind each piece

  [[nodiscard]] const Boundary& behind(const Place& piece) const {
    return boundaries[static_cast<std::size_t>(piece.section)][piece.piece];
  }
  // `before`: what it receives, where there is a stage before; `behind`: what it sends.
  [[nodiscard]] Held of_stage(const RunCounts& counts, const Boundary* before,
                              const Boundary* behind) const;
};

// `is_pipelined`: in stages of several ranks, which share no gathered weights.
Footprint footprint_of(const lower::Program& program, const std::vector<Place>& place_of_node,
                       const std::vector<Place>& place_of_task, const std::vector<Run>& runs,
                       bool is_pipelined);

}  // namespace tandem::predict
