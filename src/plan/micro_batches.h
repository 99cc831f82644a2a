// Micro-batches in the graph of a plan file. A program represents micro-batches as a digit of time,
// the first of every layout. The file represents them as operators: each fed input passes a
// `pipeline` node, whose `count` is the number of micro-batches. Before that node, the first digit
// is idle.
//
//   %x = input() shape=[64/4, 512]              "." + the devices' digits
//   %x.pipeline = pipeline(%x) count=16         "0" + the same
//
// The file has no batch operators to match the pipeline nodes. Layouts show where micro-batches are
// put together: partial sums over time, in the loss and in gradients of weights.
#pragma once

#include <map>
#include <string>

#include "ops/micro_batches.h"
#include "plan/plan.h"

namespace tandem::plan {

// Sources that are read one micro-batch at a time, by name, and how they are split.
using MicroBatched = std::map<std::string, ops::MicroBatches>;
// Returns the split sources of a mapped graph.
MicroBatched find_micro_batched(const MappedGraph& mapped);
// Returns the split sources of a graph with pipeline nodes; only pipeline nodes on sources count.
MicroBatched find_micro_batched(const graph::Graph& graph);

// Returns `mapped` with a pipeline node behind every split source.
MappedGraph add_pipeline_nodes(const MappedGraph& mapped);
// Inverts add_pipeline_nodes. Throws UserError if a pipeline node is missing, or does not agree
// with the schedule or the layouts.
MappedGraph remove_pipeline_nodes(const MappedGraph& written);

// Returns the steps that insert batch(pipeline(x)) behind all inputs in `cut`, by
// the rule batch-of-pipeline applied in reverse. `model` is the graph that the plan makes parallel.
rewrite::Derivation make_pipeline_steps(const graph::Graph& model, const MicroBatched& cut);
// Returns whether `step` is one of those.
bool is_pipeline_step(const rewrite::DerivationStep& step);
// Returns the rule batch-of-pipeline as text.
const std::string& pipeline_rule();

}  // namespace tandem::plan
