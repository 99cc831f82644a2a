// Splits a plan into single operators, each with the movements that bring its operands to it. An
// operand is replaced by an input times a weight, so that the weight's gradient tests the
// operand's. The loss is the operator's result times an input.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace tandem::check {

struct OperatorPlan {
  std::string node;          // name of the operator in the plan
  plan::MappedGraph mapped;  // has the same digits as the plan
};

// Returns one part per operator. Drops parts that differ from another only in names, and operators
// with integer results.
std::vector<OperatorPlan> split_into_operators(const plan::MappedGraph& mapped,
                                               const machine::Digits& digits);

// Returns all of a plan's graph as text, except the names.
std::string to_text_without_names(const plan::MappedGraph& mapped);

}  // namespace tandem::check
