// The time of one operator's task on one device: a roofline with launch overhead.
#pragma once

#include "machine/machine.h"
#include "ops/signature.h"
#include "tensor/tensor_type.h"

namespace tandem::cost {

struct Work {
  Flops flops;
  Bytes bytes;  // read and written
};

// Of one shard: operands and result with their shard shapes (undivided types of shard size).
Work forward_work(const ops::Op& op, std::span<const TensorType> shard_inputs,
                  const TensorType& shard_output);

// One product per differentiated operand for a contraction, one pass each for the rest.
Work backward_work(const ops::Op& op, std::span<const TensorType> shard_inputs,
                   const TensorType& shard_output, std::size_t differentiated_inputs);

Seconds task_time(const machine::Device& device, const Work& work, DType dtype);

}  // namespace tandem::cost
