// The sequential interpreter. It runs a graph on one device, forward and backward, slowly and
// obviously, in double or in a prime field. It is the oracle for everything that runs in parallel.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"
#include "tensor/dense.h"
#include "term/field.h"

namespace tandem::graph {

template <class T>
using Values = std::vector<Dense<T>>;  // by node

// A function that returns the whole value of a source node.
template <class T>
using SourceValues = std::function<Dense<T>(NodeId)>;

// A function that returns the whole value of a source node in one training step.
template <class T>
using StepValues = std::function<Dense<T>(NodeId, std::int64_t step)>;

// Returns the values of graph/feed.h.
template <class T>
SourceValues<T> make_feed_values(const Graph& graph, std::uint64_t seed = 0,
                                 std::uint64_t step = 0);

// Returns every node's value. The graph's tensors must be undivided.
template <class T>
Values<T> run_forward(const Graph& graph, const SourceValues<T>& sources);

// Returns every node's gradient, including frozen weights. `seeds` are the initial
// gradients of some nodes (an empty Dense means none). Nodes without a gradient, such as integer
// inputs, get an empty Dense.
template <class T>
Values<T> run_backward(const Graph& graph, const Values<T>& values, Values<T> seeds);

// Returns initial gradients for a scalar loss: 1 at the graph's first output.
template <class T>
Values<T> make_loss_gradient(const Graph& graph);

// The result of some steps of plain SGD; frozen weights are unchanged.
template <class T>
struct Trained {
  Values<T> values;     // values in the last step
  Values<T> gradients;  // gradients in the last step
  Values<T> weights;    // weights after the last step, by node; empty for other nodes
};

// Trains from the weights of step 0. With `delayed`, a step uses gradients at the weights of the
// step before (the first step its own): W(t+1) = W(t) - rate * gradient(W(t-1)).
template <class T>
Trained<T> train(const Graph& graph, const StepValues<T>& sources, std::int64_t steps, T rate,
                 bool delayed);

}  // namespace tandem::graph
