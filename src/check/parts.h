// A plan taken apart: every operator alone, with the movements that bring its operands to it. What
// other operators make is stood in for by an input times a weight, whose gradient tells the
// operand's; the loss is the result times an input.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace tandem::check {

struct Part {
  std::string node;          // the operator's, in the plan
  plan::MappedGraph mapped;  // of the same digits as the plan
};

// Parts that differ only in names are there once. Integer results have no part.
std::vector<Part> parts_of(const plan::MappedGraph& mapped, const machine::Digits& digits);

// All of a plan's graph but the names.
std::string text_without_names(const plan::MappedGraph& mapped);

}  // namespace tandem::check
