// Writes a graph for Graphviz. Repeated blocks are drawn once, in a box with the count.
//   tandem show mlp --dot | dot -Tsvg >mlp.svg
#pragma once

#include <string>

#include "report/blocks.h"
#include "report/mapped_model.h"

namespace tandem::report {

std::string to_dot(const graph::Graph& model, const std::vector<FoldedBlock>& blocks);

// Adds the layout to each node. Edges show the type that is read and, in colour, the communication.
std::string to_dot(const MappedModel& mapped, const std::vector<FoldedBlock>& blocks,
                   const machine::Machine& machine, const lower::Program& program);

}  // namespace tandem::report
