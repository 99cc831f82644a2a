// Breaks down an iteration's time on the busiest class of devices. Each share has a kind of task
// and, for communication, the digits that it crosses. It says how much of its time is exposed.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "predict/simulate.h"

namespace tandem::predict {

// Kinds of tasks that reports show.
inline constexpr std::array<std::string_view, 7> kReportedKinds = {
    "compute",        "embedding",  "all_reduce", "all_gather",
    "reduce_scatter", "all_to_all", "send_recv"};

// Returns the kind of `task`: "compute", "embedding" (operators that look up rows of an embedding
// table), "send_recv", or the name of its reshard step.
std::string_view get_task_kind(const lower::Program& program, const lower::Task& task);
// Returns the entry of kReportedKinds that `kind` counts as. Rooted collectives, shifts and halos
// have no entry of their own and count as "send_recv".
std::string_view to_reported_kind(std::string_view kind);
// Returns whether `task` moves data between devices.
bool communicates(const lower::Task& task);

// Total of the tasks of one kind; communication is split by the digits that it crosses.
struct Share {
  std::string kind;
  machine::DigitMask digits = 0;
  std::size_t count = 0;
  Bytes bytes;         // bytes that one device moves
  Seconds serialized;  // total time as if nothing overlapped
  // Time of communication without overlapping compute, or of compute without overlapping
  // communication. Collectives that are exposed at the same time share it equally.
  Seconds exposed;

  [[nodiscard]] bool is_compute() const { return kind == "compute" || kind == "embedding"; }
  [[nodiscard]] Seconds overlapped() const { return serialized - exposed; }
};

// Returns the shares of the busiest class in the order of kReportedKinds. The exposed times of
// communication sum to Simulation::exposed_comm. Together with compute and the bubble they sum to
// the iteration.
//   compute [0, 4), all_reduce [3, 6) -> compute exposed 3, all_reduce serialized 3, exposed 2
std::vector<Share> break_down(const lower::Program& program, const Simulation& simulation);

}  // namespace tandem::predict
