// A plan in words: what every operator's digits do, and what communicates how much over which
// level.
#pragma once

#include <string>

#include "lower/program.h"
#include "sim/simulate.h"

namespace tandem::report {

// One line per operator; layers that are alike are folded ("l*." x24), all-replicated ones left
// out.
//   l*.ffn1 x24    linear [192, 512, 4096]    batch over node 8, n over socket 2
std::string layouts_text(const plan::MappedGraph& mapped, const machine::Machine& machine,
                         const machine::Digits& digits);

// One line per kind of collective and the levels it spans: how often, how many bytes, how long.
std::string communication_text(const lower::Program& program, const machine::Machine& machine,
                               const sim::Simulation& simulation);

}  // namespace tandem::report
