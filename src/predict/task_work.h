// Predicts the time of one operator's task on one device: a roofline plus kernel launch overheads.
//
// Work describes a task independently of the device; task_time returns its time on a device. If the
// device lists `units`, a matmul is timed by its tiles (predict/matmul.h), otherwise by its flops.
#pragma once

#include <array>

#include "machine/layout.h"
#include "machine/machine.h"
#include "ops/signature.h"
#include "plan/plan.h"
#include "predict/kernels.h"
#include "predict/matmul.h"
#include "tensor/tensor_type.h"

namespace tandem::predict {

struct Work {
  Flops flops;
  Bytes bytes;                              // read and written
  Bytes random = {};                        // part of `bytes`: rows at random places of a table
  std::array<MatmulShape, 2> matmuls = {};  // matmuls that make up the flops, if any
  std::size_t matmul_count = 0;             // number of entries in `matmuls`
  double joined = 1;                        // KernelRole::joined
  double kernels = 1;                       // kernels launched; per matmul, if there are any
  ops::Pace pace = ops::Pace::kDerived;
  bool backward = false;
  // Key among measured times (machine/measured.h); 0 if the work is not looked up there.
  Hash kind = 0;
  machine::MeasuredShapes shapes = {};
};

// Returns the work of one forward task of `op` on operands of these parallel types.
Work forward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output,
                  const KernelRole& role = {});

// Returns the work of one backward task of `op`. A contraction has one matmul for each of its
// multiplied operands in `differentiated` (a bias is not multiplied). Other operators
// take twice the forward flops. Flops that the operator recomputes are added. The task reads the
// result's gradient and the operands that the gradients use. It writes the gradients, except those
// that equal the result's gradient. Returns empty work if `differentiated` is 0.
Work backward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output,
                   ops::InputMask differentiated, const KernelRole& role = {});

// Return the model flops of an undivided operator. Recomputation does not count.
Flops forward_flops(const ops::Op& op, std::span<const TensorType> inputs,
                    const TensorType& output);
Flops backward_flops(const ops::Op& op, std::span<const TensorType> inputs,
                     const TensorType& output, ops::InputMask differentiated);

// Returns the work of an optimizer update of `elements` elements of a weight; for a
// row-sparse gradient, `elements` is the size of the gradient. The update reads the gradient,
// and reads and writes weight and state. With fp32 master weights it reads and writes the master
// weight and only writes the weight. `software` may set the bytes per parameter. If it fuses
// elementwise kernels, one kernel updates all weights.
Work update_work(double elements, DType weight, plan::Optimizer optimizer,
                 const plan::Precision& precision = {}, const machine::Software& software = {});

// Returns the work of adding to a tensor of `elements` elements. `bytes` counts all reads and
// writes.
Work addition_work(std::int64_t elements, DType dtype, Bytes bytes);

// Returns the work that subtracting a weight's gradient adds to the matmul that computes it: one
// read of the weight.
Work fused_update_work(double elements, DType weight);

// Returns the key of an update among measured times. `of_rows`: it updates rows of a table instead
// of a whole weight.
Hash make_update_key(DType weight, plan::Optimizer optimizer, bool of_rows);

// Returns the peak for `dtype`. A type without a listed peak takes that of the nearest wider type
// (bf16 on a V100: fp32), otherwise that of a narrower type.
FlopsPerSecond get_peak(const machine::Device& device, DType dtype);

// Returns the peak of all devices together.
FlopsPerSecond compute_total_peak(const machine::Machine& machine, DType dtype);

// Returns the type that a network computes in: the type of its largest weight. The loss may have
// another type.
DType find_compute_dtype(const graph::Graph& graph);

// Returns the number of kernels that `work` launches.
double count_launches(const machine::Device& device, const Work& work);

// Returns max(flops / (peak x utilization), bytes / (bandwidth x utilization)), plus the launch
// time of each kernel.
Seconds modelled_time(const machine::Device& device, const Work& work, DType dtype);

// Returns the time by the device's measurements if they include this work, otherwise modelled_time.
Seconds task_time(const machine::Device& device, const Work& work, DType dtype);

// Returns the time on the slowest device that holds a shard of a tensor in this layout.
Seconds slowest_task_time(const machine::Machine& machine, const machine::Digits& digits,
                          const machine::Layout& layout, const Work& work, DType dtype);

}  // namespace tandem::predict
