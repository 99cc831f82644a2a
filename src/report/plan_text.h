// Prints a plan: the layout of each operator, and the communication over each machine level.
#pragma once

#include <string>

#include "plan/plan.h"
#include "predict/breakdown.h"

namespace tandem::report {

// Returns one line per operator. Equal operators of several layers share a line ("l*." x24).
//   l*.ffn1 x24  linear  [192, 512, 4096]  batch over node 8, column-parallel (n) over socket 2
std::string layouts_text(const plan::MappedGraph& mapped, const machine::Machine& machine,
                         const machine::Digits& digits);

// Replaces the first number in a name, which is that of a layer or table: "l12.ffn1" -> "l*.ffn1".
std::string fold_name(const std::string& name);

// Returns one line per kind of collective and levels that it spans: its count, bytes, time, and the
// part of the time that is exposed.
std::string communication_text(const std::vector<predict::Share>& shares,
                               const machine::Machine& machine, const machine::Digits& digits);

}  // namespace tandem::report
