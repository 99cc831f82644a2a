// The virtual-device interpreter: runs a parallel computation graph with every shard a tensor of
// its own and every parallelization operator done literally. What it computes, put together again
// by the meaning of a parallel tensor, must equal the sequential interpreter's result on the
// erasure.
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
  std::vector<Dense<T>> shards;  // by shard_number; empty when there is no value

  Sharded() = default;
  // Zeros.
  explicit Sharded(const ParallelShape& s);

  [[nodiscard]] Dense<T>& at(const ops::ShardIndex& index);
  [[nodiscard]] const Dense<T>& at(const ops::ShardIndex& index) const;
};

// Cuts, copies and splits a whole value into shards. Where the shape is partial the summands are
// random, different for every `salt`.
template <class T>
Sharded<T> distribute(const Dense<T>& whole, const ParallelShape& shape, Hash salt);

// Concatenates over degrees, sums over partial, and takes replica 0. `replicas_agree`, when given,
// is set to whether all replicas hold the same.
template <class T>
Dense<T> assemble(const Sharded<T>& value, bool* replicas_agree = nullptr);

template <class T>
using ShardedValues = std::vector<Sharded<T>>;  // by node

template <class T>
ShardedValues<T> run_sharded_forward(const Graph& pcg, const SourceValues<T>& sources);

// Gradients have the dual of their tensor's type; seeds too.
template <class T>
ShardedValues<T> run_sharded_backward(const Graph& pcg, const ShardedValues<T>& values,
                                      ShardedValues<T> seeds);

// The seed of a scalar loss: 1 on every summand, on replica 0 only.
template <class T>
ShardedValues<T> sharded_loss_seed(const Graph& pcg);

}  // namespace tandem::graph
