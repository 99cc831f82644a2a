// A plan in words: what every operator's digits do, and what communicates how much over which
// level.
#pragma once

#include <string>

#include "plan/plan.h"
#include "predict/breakdown.h"

namespace tandem::report {

// One line per operator; layers that are alike are folded ("l*." x24), all-replicated ones left
// out.
//   l*.ffn1 x24    linear [192, 512, 4096]    batch over node 8, n over socket 2, 8 computed again
std::string layouts_text(const plan::MappedGraph& mapped, const machine::Machine& machine,
                         const machine::Digits& digits);

// The first number in a name is taken for that of a layer or table: "l12.ffn1" -> "l*.ffn1".
std::string folded_name(const std::string& name);

// One line per kind of collective and the levels it spans: how often, how many bytes, how long, and
// how much of that no compute hides.
std::string communication_text(const std::vector<predict::Share>& shares,
                               const machine::Machine& machine, const machine::Digits& digits);

}  // namespace tandem::report
