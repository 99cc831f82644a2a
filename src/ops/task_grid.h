// The distribution of an operator over tasks. Every factor has a degree; partial sums may pass
// through the operator, and replicas may compute the same redundantly. Each task works on one shard
// of every operand.
//
//   linear [b k],[n k] -> [b n] with degrees b=2, n=3:  6 tasks;
//   x is [b/2 k]*3 (a copy for each part of n), w is [n/3 k]*2, out is [b/2 n/3].
//
// A dimension that runs over several factors, (kv g), is partitioned along the first factor until
// that is used up, then along the next. A window is partitioned along the factor it moves with. The
// task then reads beyond its shard, from the neighbouring shards.
//
// An operand's replica coordinate is a mixed-radix number. Its digits are those of the factors that
// the operand lacks, in index-text order, then of the partial sums that it does not carry, then of
// the redundant replicas. An output's partial coordinate has the digits of the contracted factors,
// then of the partial sums passing through.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/signature.h"
#include "term/evaluate.h"

namespace tandem::ops {

// The degrees of one operator's factors, partial sums and replicas.
struct TaskGrid {
  std::vector<std::int64_t> degrees;  // by factor
  std::int64_t through = 1;           // number of partial sums that pass through the operator
  InputMask through_inputs = 0;       // inputs that carry these partial sums
  std::int64_t replicas = 1;          // redundant copies of the whole computation

  bool operator==(const TaskGrid&) const = default;
  // Returns the number of tasks.
  [[nodiscard]] std::int64_t tasks() const;
};

// Returns the type that operand number `input` must have.
ParallelShape compute_input_shape(const Signature& s, const TaskGrid& grid, std::size_t input);
// Returns the type of the output.
ParallelShape compute_output_shape(const Signature& s, const TaskGrid& grid);

// Returns the grid that operands of these types imply. Throws UserError without a location if there
// is none; the error names the factor and both values.
TaskGrid infer_grid(const Signature& s, std::span<const ParallelShape> inputs);
// Returns the grid, or nullopt without a reason if there is none. It serves callers that try
// thousands of operand types.
std::optional<TaskGrid> try_infer_grid(const Signature& s, std::span<const ParallelShape> inputs);

// The coordinates of a task along every axis of the grid.
struct TaskPosition {
  std::vector<std::int64_t> factors;
  std::int64_t through = 0;
  std::int64_t replica = 0;
};
// Returns the coordinates of task number `task`.
TaskPosition compute_position(const TaskGrid& grid, std::int64_t task);

// Returns the range of every factor that the task at `at` works on.
std::vector<term::FactorRange> compute_task_ranges(const Signature& s, const TaskGrid& grid,
                                                   const TaskPosition& at);

// A shard of a parallel tensor, by its coordinates.
struct ShardIndex {
  Shape dims;
  std::int64_t replica = 0;
  std::int64_t partial = 0;
  bool operator==(const ShardIndex&) const = default;
};
// Returns the coordinates of the shard of operand `input` that the task at `at` reads.
ShardIndex find_input_shard(const Signature& s, const TaskGrid& grid, const TaskPosition& at,
                            std::size_t input);
// Returns the coordinates of the output shard that the task at `at` computes.
ShardIndex find_output_shard(const Signature& s, const TaskGrid& grid, const TaskPosition& at);

// Returns the box that the shard at `coordinates` occupies in its tensor.
term::Box compute_shard_box(const ParallelShape& shape, const Shape& coordinates);

}  // namespace tandem::ops
