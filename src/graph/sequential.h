// The sequential interpreter: runs a graph on one device, forward and backward, slowly and
// obviously, in double or in a prime field. The oracle for everything that runs in parallel.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"
#include "tensor/dense.h"
#include "term/field.h"

namespace tandem::graph {

template <class T>
using Values = std::vector<Dense<T>>;  // by node

// Gives the whole value of a source node.
template <class T>
using SourceValues = std::function<Dense<T>(NodeId)>;

// The same in a step of training.
template <class T>
using StepValues = std::function<Dense<T>(NodeId, std::int64_t step)>;

// The values of graph/feed.h.
template <class T>
SourceValues<T> feed_values(const Graph& graph, std::uint64_t seed = 0, std::uint64_t step = 0);

// Every node's value. The graph's tensors must be undivided.
template <class T>
Values<T> run_forward(const Graph& graph, const SourceValues<T>& sources);

// Every node's gradient, of frozen weights, too, given seeds for some nodes (empty Dense = none).
// Nodes without a gradient keep an empty Dense. Integer inputs never have one.
template <class T>
Values<T> run_backward(const Graph& graph, const Values<T>& values, Values<T> seeds);

// Seeds that are 1 at the graph's first output, a scalar loss.
template <class T>
Values<T> loss_seed(const Graph& graph);

// What steps of plain SGD leave; frozen weights stay as they are.
template <class T>
struct Trained {
  Values<T> values;     // of the last step
  Values<T> gradients;  // of the last step
  Values<T> weights;    // after it; by node, empty for all that is no weight
};

// From the weights of step 0. With `delayed` a step's gradients are those of the weights of the
// step before, in the first step its own: W(t+1) = W(t) - rate * gradient(W(t-1)).
template <class T>
Trained<T> train(const Graph& graph, const StepValues<T>& sources, std::int64_t steps, T rate,
                 bool delayed);

}  // namespace tandem::graph
