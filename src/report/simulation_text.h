// A simulated step in words and in JSON: where its time goes, what fills the memory and when, and
// what bounds it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lower/program.h"
#include "predict/breakdown.h"
#include "search/search.h"

namespace tandem::report {

// By reported kind: serialized time, and of communication how much is overlapped and how much
// exposed. Compute, what communication exposes and idle time add up to the iteration.
std::string time_table(const std::vector<predict::Share>& shares,
                       const predict::Simulation& simulation);

// "compute (71 % of the iteration), exposed all_reduce over node 2 (18 %), idle (11 %)": the
// largest part first.
std::string bound_text(const std::vector<predict::Share>& shares,
                       const predict::Simulation& simulation, const machine::Machine& machine,
                       const machine::Digits& digits);

// What a device holds at its peak, and when that is.
struct Peak {
  predict::Memory memory;
  std::string when;     // "the backward pass of %l3.scores, micro-batch 2"
  std::string largest;  // of what the step makes: "l*.scores"; may be empty
  Bytes largest_bytes;  // of all of these
};
Peak peak_of(const lower::Program& program, const predict::Memory& memory);

std::string memory_table(const Peak& peak);

// What a headline says beside the simulation.
struct Headline {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;  // of a step; 0 where there are none
  search::Tightest memory;
  std::string margin;       // search::margin_text
  std::string parallelism;  // strategies::to_text; may be empty
};
// Parallelism, iteration, throughput, MFU and memory, a line each.
std::string headline_text(const predict::Simulation& simulation, const Headline& headline);

// Under the keys "breakdown", "communication", "bound_by" and "memory_at_peak".
nlohmann::ordered_json details_json(const lower::Program& program,
                                    const predict::Simulation& simulation,
                                    const machine::Machine& machine, const Peak& peak);

}  // namespace tandem::report
