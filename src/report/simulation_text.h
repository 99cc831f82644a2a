// Prints a simulated step as text and JSON: its time by kind of work, its memory at the peak, and
// what bounds it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lower/program.h"
#include "predict/breakdown.h"
#include "search/search.h"

namespace tandem::report {

// Returns a table with the serialized time of each reported kind. A kind of communication also has
// its overlapped and its exposed time. The sum of compute, exposed communication and stall is the
// iteration.
std::string time_table(const std::vector<predict::Share>& shares,
                       const predict::Simulation& simulation);

// Returns the parts of the iteration, largest first:
// "compute (71 % of the step time), exposed all_reduce over node 2 (18 %), stall (11 %)".
std::string bound_text(const std::vector<predict::Share>& shares,
                       const predict::Simulation& simulation, const machine::Machine& machine,
                       const machine::Digits& digits);

// The memory of a device at its peak, and the moment of the peak.
struct Peak {
  predict::Memory memory;
  std::string when;     // "the backward pass of %l3.scores, micro-batch 2"
  std::string largest;  // largest group of transient tensors: "l*.scores"; may be empty
  Bytes largest_bytes;  // bytes of this group
};
// Returns the peak of the device that `memory` describes. `when` and `largest` stay empty if
// `memory` names no moment of the program.
Peak find_peak(const lower::Program& program, const predict::Memory& memory);

// Returns a table with the bytes of each kind of buffer, without kinds that hold nothing.
std::string memory_table(const Peak& peak);

// Facts that a headline states in addition to the simulation.
struct Headline {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;  // tokens per step; 0 if the network has none
  search::Tightest memory;
  std::string margin;       // search::format_margin
  std::string parallelism;  // strategies::to_text; may be empty
};
// Returns one line each for parallelism, iteration time, throughput, MFU and memory.
std::string headline_text(const predict::Simulation& simulation, const Headline& headline);

// Returns an object with the keys "breakdown", "communication", "bound_by" and "memory_at_peak".
nlohmann::ordered_json details_json(const lower::Program& program,
                                    const predict::Simulation& simulation,
                                    const machine::Machine& machine, const Peak& peak);

}  // namespace tandem::report
