// Where an iteration's time goes on the busiest class of devices: by kind of task and, for
// communication, by the digits it crosses, and how much of it something else hides.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "predict/simulate.h"

namespace tandem::predict {

// The kinds that reports have.
inline constexpr std::array<std::string_view, 7> kReportedKinds = {
    "compute",        "embedding",  "all_reduce", "all_gather",
    "reduce_scatter", "all_to_all", "send_recv"};

// A task's kind: "compute", "embedding" (operators that look up rows of a table), "send_recv", or
// the name of its step.
std::string_view kind_of(const lower::Program& program, const lower::Task& task);
// Which of kReportedKinds a kind counts as. Rooted collectives, shifts and halos have none of their
// own: they are sends and receives.
std::string_view reported_kind(std::string_view kind);
// Moves between devices; not what is local to one.
bool communicates(const lower::Task& task);

// Tasks of one kind, over the same digits where they communicate.
struct Share {
  std::string kind;
  machine::DigitMask digits = 0;
  std::size_t count = 0;
  Bytes bytes;         // moved
  Seconds serialized;  // as if nothing overlapped
  // Of communication: with no compute beside it; what runs at the same time shares it equally. Of
  // compute: with no communication beside it.
  Seconds exposed;

  [[nodiscard]] bool is_compute() const { return kind == "compute" || kind == "embedding"; }
  [[nodiscard]] Seconds overlapped() const { return serialized - exposed; }
};

// In the order of kReportedKinds. What communication exposes adds up to exposed_comm,
// and with the compute's time and the bubble to the iteration.
std::vector<Share> break_down(const lower::Program& program, const Simulation& simulation);

}  // namespace tandem::predict
