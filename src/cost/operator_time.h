// The time of one operator's task on one device: a roofline with launch overhead.
#pragma once

#include "machine/layout.h"
#include "machine/machine.h"
#include "ops/signature.h"
#include "plan/plan.h"
#include "tensor/tensor_type.h"

namespace tandem::cost {

struct Work {
  Flops flops;
  Bytes bytes;  // read and written
};

// Of one task of an operator on operands of these parallel types.
Work forward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output);

// For a contraction one product per differentiated operand that is multiplied (a bias is not), for
// the rest twice the forward flops. Nothing when no input is differentiated.
Work backward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output,
                   std::size_t differentiated_inputs);

// The elements of a table's gradient that these indices can touch.
std::int64_t row_sparse_elements(const Shape& indices, const Shape& table);

// An update of so many elements of a weight: those of the gradient, where it is row-sparse. Weight
// and state are read and written, the gradient is read; where there is a master copy that is read
// and written, and the weight only written.
Bytes update_bytes(double elements, DType weight, plan::Optimizer optimizer,
                   const plan::Precision& precision = {});

// A type without a listed peak takes that of the nearest wider one (bf16 on a V100: fp32), else of
// a narrower one.
FlopsPerSecond peak_of(const machine::Device& device, DType dtype);

// max(flops / (peak x utilization), bytes / (bandwidth x utilization)) + launch.
Seconds task_time(const machine::Device& device, const Work& work, DType dtype);

// Of the slowest device that holds a part of a tensor in this layout: where all work on theirs.
Seconds slowest_task_time(const machine::Machine& machine, const machine::Digits& digits,
                          const machine::Layout& layout, const Work& work, DType dtype);

}  // namespace tandem::cost
