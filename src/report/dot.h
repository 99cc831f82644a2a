// A graph for Graphviz: blocks that repeat are drawn once, in a box that says how often.
//   tandem show mlp --dot | dot -Tsvg >mlp.svg
#pragma once

#include <string>

#include "report/blocks.h"
#include "report/mapped_model.h"

namespace tandem::report {

std::string dot(const graph::Graph& model, const std::vector<Block>& blocks);

// With what the devices do in the nodes; edges say how an operand is read and, in a colour, what is
// communicated for it.
std::string dot(const MappedModel& mapped, const std::vector<Block>& blocks,
                const machine::Machine& machine, const lower::Program& program);

}  // namespace tandem::report
