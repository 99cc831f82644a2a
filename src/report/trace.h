// Writes a simulated iteration as a trace in Chrome's JSON format, which Perfetto (ui.perfetto.dev)
// and chrome://tracing open. Each class of devices is a process and each of its streams a row.
// Arrows show waits between streams or classes, and a counter shows the memory.
#pragma once

#include <string>

#include "lower/program.h"
#include "predict/simulate.h"

namespace tandem::report {

struct Trace {
  std::string json;
  // Number of classes of devices in the trace, and in all. Classes that would make the file too
  // large to open are omitted; the busiest is always included.
  std::size_t classes_shown = 0;
  std::size_t classes = 0;
};

// Largest number of spans in a trace, unless the busiest class alone has more.
inline constexpr std::size_t kMostTracedSpans = 200'000;

Trace make_chrome_trace(const lower::Program& program, const machine::Machine& machine,
                        const predict::Simulation& simulation, const std::string& title,
                        std::size_t most_spans = kMostTracedSpans);

}  // namespace tandem::report
