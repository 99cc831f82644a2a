// What people call the tensors of a program: by the model's nodes, not by the parallelization
// operators that move them.
#pragma once

#include <string>
#include <vector>

#include "lower/program.h"

namespace tandem::report {

// The node of the model whose value this one has: a parallelization operator's operand, and its.
graph::NodeId origin_of(const graph::Graph& pcg, graph::NodeId id);

// "relu3", "the gradient of w1", "w1, gathered", "the mask of drop", "the optimizer state of w1".
std::string buffer_name(const lower::Program& program, lower::BufferId id);

// The buffer that a move, a send or a receive is about; of several the one with this number.
lower::BufferId moved_buffer(const lower::Task& task, std::size_t which = 0);

// "all_reduce of the gradient of w1"; of a bucket "... and 11 more".
std::string transfer_name(const lower::Program& program, const lower::Task& task);

// The node that a name stands for: "linear1", "%linear1"; "l{i}.ffn" and "l*.ffn", as texts fold
// them, stand for the first of several. Throws UserError with the nearest names; `source` is whose
// node it should be.
graph::NodeId find_node(const graph::Graph& pcg, const std::string& name,
                        const std::string& source);

}  // namespace tandem::report
