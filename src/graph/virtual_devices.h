// The virtual-device interpreter: runs a parallel computation graph with every shard as a tensor of
// its own and every parallelization operator done literally. Its assembled results must equal the
// sequential interpreter's results on the erasure.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/sequential.h"
#include "ops/task_grid.h"
#include "tensor/dense.h"

namespace tandem::graph {

template <class T>
struct Sharded {
  ParallelShape shape;
  std::vector<Dense<T>> shards;  // by compute_shard_number; empty if there is no value

  Sharded() = default;
  // Constructs shards of zeros.
  explicit Sharded(const ParallelShape& s);

  [[nodiscard]] Dense<T>& at(const ops::ShardIndex& index);
  [[nodiscard]] const Dense<T>& at(const ops::ShardIndex& index) const;
};

// Distributes a whole value into shards by cutting, replicating and splitting. The summands of
// partial sums are random, different for every `salt`.
//   {5, 7} with degree 2 -> {5}, {7}; with 2 replicas -> {5, 7}, {5, 7}; with 2 partial sums, for
//   example -> {9, 1}, {-4, 6}
template <class T>
Sharded<T> distribute(const Dense<T>& whole, const ParallelShape& shape, Hash salt);

// Returns the whole value: concatenates over degrees, sums over partial, and takes replica 0. If
// `replicas_agree` is given, it is set to whether all replicas are equal.
template <class T>
Dense<T> assemble(const Sharded<T>& value, bool* replicas_agree = nullptr);

template <class T>
using ShardedValues = std::vector<Sharded<T>>;  // by node

template <class T>
ShardedValues<T> run_sharded_forward(const Graph& pcg, const SourceValues<T>& sources);

// Returns every node's gradient. Gradients, also the initial ones, have the dual of their tensor's
// type.
template <class T>
ShardedValues<T> run_sharded_backward(const Graph& pcg, const ShardedValues<T>& values,
                                      ShardedValues<T> seeds);

// Returns the initial gradients of a scalar loss: 1 on every summand, on replica 0 only.
template <class T>
ShardedValues<T> make_sharded_loss_gradient(const Graph& pcg);

}  // namespace tandem::graph
