// How an operator is spread over tasks: a degree for every factor, partial sums that pass through
// it, and replicas that compute the same redundantly. Each task works on one shard of every
// operand.
//
//   linear [b k],[n k] -> [b n] with degrees b=2, n=3:  6 tasks;
//   x is [b/2 k]*3 (a copy for each part of n), w is [n/3 k]*2, out is [b/2 n/3].
//
// A dimension that runs over several factors, (kv g), is cut along the first until that is used up,
// then along the next. A window is cut along the factor it moves with; the task then reads beyond
// its shard, from those that lie beside it.
//
// An operand's replica coordinate is the mixed radix of the factors it lacks, in index-text order,
// then of the partial sums it does not carry, then of the redundant replicas. An output's partial
// coordinate is that of the contracted factors, then of the partial sums passing through.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/signature.h"
#include "term/evaluate.h"

namespace tandem::ops {

struct TaskGrid {
  std::vector<std::int64_t> degrees;  // by factor
  std::int64_t through = 1;           // partial sums passing through ...
  InputMask through_inputs = 0;       // ... carried by these inputs
  std::int64_t replicas = 1;          // redundant copies of the whole computation

  bool operator==(const TaskGrid&) const = default;
  [[nodiscard]] std::int64_t tasks() const;
};

// The type each operand must have, and the type of the output.
ParallelShape input_shape(const Signature& s, const TaskGrid& grid, std::size_t input);
ParallelShape output_shape(const Signature& s, const TaskGrid& grid);

// The grid that operands of these types mean. Throws UserError (without a place) that names the
// factor and both values when there is none.
TaskGrid infer_grid(const Signature& s, std::span<const ParallelShape> inputs);
// None where there is none, without a reason: of operands that are tried by the thousand.
std::optional<TaskGrid> tried_grid(const Signature& s, std::span<const ParallelShape> inputs);

// Where a task stands along every axis of the grid.
struct TaskPosition {
  std::vector<std::int64_t> factors;
  std::int64_t through = 0;
  std::int64_t replica = 0;
};
TaskPosition position_of(const TaskGrid& grid, std::int64_t task);

// The part of every factor that the task works on.
std::vector<term::FactorRange> ranges_of(const Signature& s, const TaskGrid& grid,
                                         const TaskPosition& at);

// A shard of a parallel tensor, by its coordinates.
struct ShardIndex {
  Shape dims;
  std::int64_t replica = 0;
  std::int64_t partial = 0;
  bool operator==(const ShardIndex&) const = default;
};
ShardIndex input_shard(const Signature& s, const TaskGrid& grid, const TaskPosition& at,
                       std::size_t input);
ShardIndex output_shard(const Signature& s, const TaskGrid& grid, const TaskPosition& at);

// Where a shard lies in its tensor.
term::Box shard_box(const ParallelShape& shape, const Shape& coordinates);

}  // namespace tandem::ops
