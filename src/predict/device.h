// The time of one operator's task on one device: a roofline, with what its kernels need beside.
//
// Work is what a task does, whatever the device; task_time is how long that takes there. On a
// device with `units` a product is timed by its tiles (predict/product.h), elsewhere by its flops.
#pragma once

#include <array>

#include "machine/layout.h"
#include "machine/machine.h"
#include "ops/signature.h"
#include "plan/plan.h"
#include "predict/kernels.h"
#include "predict/product.h"
#include "tensor/tensor_type.h"

namespace tandem::predict {

struct Work {
  Flops flops;
  Bytes bytes;                           // read and written
  Bytes random = {};                     // of those: rows anywhere in a table
  std::array<Product, 2> products = {};  // what the flops are, if they are products
  std::size_t product_count = 0;         // of those
  double joined = 1;                     // KernelRole's
  double kernels = 1;                    // that are launched; for each product, if there are any
  ops::Pace pace = ops::Pace::kDerived;
  bool backward = false;
  // What it is among measured times (machine/measured.h); 0: it is not looked up there.
  Hash kind = 0;
  machine::MeasuredShapes shapes = {};
};

// Of one task of an operator on operands of these parallel types.
Work forward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output,
                  const KernelRole& role = {});

// For a contraction one product for each of `differentiated` operands that is multiplied (a bias is
// not), for the rest twice the forward flops, and what the operator computes again. It reads the
// result's gradient and those operands that gradients mention, and writes gradients, but for those
// that are the result's as it is. Nothing when no input is differentiated.
Work backward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output,
                   ops::InputMask differentiated, const KernelRole& role = {});

// What the model is said to compute, where nothing is divided: nothing that is computed again.
Flops forward_flops(const ops::Op& op, std::span<const TensorType> inputs,
                    const TensorType& output);
Flops backward_flops(const ops::Op& op, std::span<const TensorType> inputs,
                     const TensorType& output, ops::InputMask differentiated);

// An update of so many elements of a weight: those of the gradient, where it is row-sparse. Weight
// and state are read and written, the gradient is read; where there is a master copy that is read
// and written, and the weight only written. Software may say itself how many bytes a parameter
// takes; where it fuses, one kernel updates all weights.
Work update_work(double elements, DType weight, plan::Optimizer optimizer,
                 const plan::Precision& precision = {}, const machine::Software& software = {});

// Adds to a tensor of so many elements of this type: so many bytes are read and written in all.
Work accumulate_work(std::int64_t elements, DType dtype, Bytes bytes);

// What subtracting a weight's gradient adds to the product that makes it: the weight is read.
Work update_in_product_work(double elements, DType weight);

// Among measured times; of rows of a table, or of all of a weight.
Hash kind_of_update(DType weight, plan::Optimizer optimizer, bool of_rows);

// A type without a listed peak takes that of the nearest wider one (bf16 on a V100: fp32), else of
// a narrower one.
FlopsPerSecond peak_of(const machine::Device& device, DType dtype);

// Of all devices together.
FlopsPerSecond peak_of_all(const machine::Machine& machine, DType dtype);

// The type that a network computes in: that of its largest weight. Its loss may have another.
DType computing_type(const graph::Graph& graph);

// How many kernels the task is.
double launches(const machine::Device& device, const Work& work);

// max(flops / (peak x utilization), bytes / (bandwidth x utilization)) + launch for each kernel.
Seconds modelled_time(const machine::Device& device, const Work& work, DType dtype);

// The same where nothing was measured; else as the device's measured times have it.
Seconds task_time(const machine::Device& device, const Work& work, DType dtype);

// Of the slowest device that holds a part of a tensor in this layout: where all work on theirs.
Seconds slowest_task_time(const machine::Machine& machine, const machine::Digits& digits,
                          const machine::Layout& layout, const Work& work, DType dtype);

}  // namespace tandem::predict
