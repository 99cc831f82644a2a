// A simulated iteration as a trace in Chrome's JSON format, which Perfetto (ui.perfetto.dev) and
// chrome://tracing open: a process for each class of devices, a row for each of its streams, arrows
// for what one stream or class waits for from another, and a counter of memory.
#pragma once

#include <string>

#include "lower/program.h"
#include "predict/simulate.h"

namespace tandem::report {

struct Trace {
  std::string json;
  // Of how many classes of devices it is; those that are left out would make the file too large to
  // open. The busiest is always there.
  std::size_t classes_shown = 0;
  std::size_t classes = 0;
};

// With so many spans at the most, unless the busiest class alone has more.
inline constexpr std::size_t kMostTracedSpans = 200'000;

Trace chrome_trace(const lower::Program& program, const machine::Machine& machine,
                   const predict::Simulation& simulation, const std::string& title,
                   std::size_t most_spans = kMostTracedSpans);

}  // namespace tandem::report
