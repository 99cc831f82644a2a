// The memory of a folded network's program, section by section: what lives on, what is there for
// the whole step, and how what is there for one micro-batch comes and goes.
#pragma once

#include <span>

#include "estimate/stage.h"
#include "lower/order.h"
#include "sim/memory.h"

namespace tandem::estimate {

using Parts = std::array<double, 5>;  // bytes by lower::BufferKind

// Within one part of a section or stage: what it has added at its end, and at its fullest.
struct Change {
  Parts net{};
  Parts most{};
};

// Of a section, or of all sections of a stage.
struct Held {
  Parts persistent{};
  Parts step{};  // in all micro-batches, where there are several
  Change forward, backward;
  Change last;  // the last micro-batch's backward pass
};

struct Footprint {
  std::array<Held, kSections> sections;
  bool several = false;          // micro-batches
  double boundary = 0;           // the activation that goes from layer to layer, in bytes
  double boundary_gradient = 0;  // what comes back
  bool boundary_copied = false;  // do several devices hold the same of it?

  // `receives`, `sends`: there is a stage before, or after.
  [[nodiscard]] Held of_stage(const SectionCounts& counts, bool receives, bool sends) const;
};

Footprint footprint_of(const lower::Program& program, const std::vector<Section>& section_of_node,
                       const std::vector<Section>& section_of_task);

// The peak on a rank of a pipeline that takes these turns. `stages`: by stage.
sim::Memory peak_over(std::span<const lower::Turn> turns, std::int64_t micro_batches,
                      std::span<const Held> stages);

}  // namespace tandem::estimate
