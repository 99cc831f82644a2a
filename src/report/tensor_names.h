// Names the tensors of a program after the model's nodes, not after the parallelization operators
// that move them.
#pragma once

#include <string>
#include <vector>

#include "lower/program.h"

namespace tandem::report {

// Returns the model's node whose value `id` has: follows the operands of parallelization operators.
graph::NodeId find_origin(const graph::Graph& pcg, graph::NodeId id);

// Returns a name such as "relu3", "the gradient of w1", "w1, gathered", "the mask of drop" or "the
// optimizer state of w1".
std::string buffer_name(const lower::Program& program, lower::BufferId id);

// Returns the buffer that a move, send or receive transfers. If there are several, as in a bucket,
// returns number `which`.
lower::BufferId get_moved_buffer(const lower::Task& task, std::size_t which = 0);

// Returns "all_reduce of the gradient of w1". For a bucket, appends " and 11 more".
std::string transfer_name(const lower::Program& program, const lower::Task& task);

// Returns the node named `name`: "linear1" or "%linear1". Folded names, "l{i}.ffn" and "l*.ffn",
// name the first node that they match. If there is none, throws a UserError with the nearest names;
// `source` is the file that should have the node.
graph::NodeId find_node(const graph::Graph& pcg, const std::string& name,
                        const std::string& source);

}  // namespace tandem::report
