// Micro-batches in the graph of a plan, as its file has it. A program counts them as a digit of
// time, the first of every layout; in the file they are operators: what a step reads passes a
// `pipeline` node, whose `count` is the number of micro-batches. Before it the first digit is idle.
//
//   %x = input() shape=[64/4, 512]              "." + the devices' digits
//   %x.pipeline = pipeline(%x) count=16         "0" + the same
//
// The batch operators that end what the pipeline nodes begin are not there: layouts say where parts
// are put together, in the loss and in gradients of weights, as partial sums over time.
#pragma once

#include <map>
#include <string>

#include "ops/micro_batches.h"
#include "plan/plan.h"

namespace tandem::plan {

// What is read a micro-batch at a time, and how it is cut.
using MicroBatched = std::map<std::string, ops::MicroBatches>;
MicroBatched micro_batched(const MappedGraph& mapped);
// Of a graph with pipeline nodes; those on sources count.
MicroBatched micro_batched(const graph::Graph& graph);

MappedGraph with_pipeline_nodes(const MappedGraph& mapped);
// The reverse. Throws UserError where a node does not agree with the schedule or the layouts, or
// where one is missing.
MappedGraph without_pipeline_nodes(const MappedGraph& written);

// The steps that put batch(pipeline(x)) at all of these, by batch-of-pipeline read backwards.
// `model` is what the plan makes parallel.
rewrite::Derivation pipeline_steps(const graph::Graph& model, const MicroBatched& cut);
// Is it one of those?
bool is_pipeline_step(const rewrite::Step& step);
// The rule, as text.
const std::string& pipeline_rule();

}  // namespace tandem::plan
