#include "cost/operator_time.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"

namespace tandem::cost {

namespace {

std::vector<Shape> whole_shapes(std::span<const TensorType> types) {
  std::vector<Shape> out;
  for (const auto& type : types) out.push_back(type.shape.sizes);
  return out;
}

// The part of the operator's points that one task computes: every factor that is cut shows in the
// result, as a degree or as partial values; those passing through came in with an operand.
double share_of_task(std::span<const TensorType> inputs, const TensorType& output) {
  std::int64_t through = 1;
  for (const auto& type : inputs) through = std::max(through, type.shape.partial);
  return static_cast<double>(through) /
         static_cast<double>(output.shape.degrees.count() * output.shape.partial);
}

// Rows that are zero by construction are not computed.
double density_of(std::span<const TensorType> inputs, const TensorType& output) {
  double least = output.density;
  for (const auto& type : inputs) least = std::min(least, type.density);
  return least;
}

Bytes operand_bytes(std::span<const TensorType> types) {
  Bytes total;
  for (const auto& type : types) total += type.shard_bytes();
  return total;
}

// How many inputs a contraction multiplies: those with a factor that the output lacks; 0 for other
// operators. A fused bias is not one, and an activation after the sum changes nothing here.
std::size_t contracted_inputs(const ops::IndexMap& map) {
  return static_cast<std::size_t>(std::ranges::count_if(map.inputs, [&](const auto& dims) {
    return std::ranges::any_of(dims, [&](const term::Dim& dim) {
      return std::ranges::any_of(dim.at.parts,
                                 [&](const auto& part) { return map.output_dim(part.factor) < 0; });
    });
  }));
}

struct Forward {
  Work work;
  std::size_t products = 0;  // contracted_inputs, where the operator does not say its flops itself
  bool own_bytes = false;    // the operator says its bytes itself
};

Forward forward(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output) {
  CHECK(op.role() == ops::Role::kCompute, op.name());
  const auto shapes = whole_shapes(inputs);
  Forward out;
  const auto& signature = ops::signature(op, shapes);
  out.work.flops = share_of_task(inputs, output) * density_of(inputs, output) * signature.flops;
  if (!op.spec().flops(op.raw(), shapes)) out.products = contracted_inputs(signature.map);
  const auto bytes = op.spec().bytes(op.raw(), inputs);
  out.own_bytes = bytes.has_value();
  out.work.bytes = bytes ? *bytes : operand_bytes(inputs) + output.shard_bytes();
  return out;
}

// Which rates may stand in for a type the device does not list: the nearest wider type first, for
// such hardware converts; then the nearest narrower one. Integers count as floats of their size.
std::span<const DType> rates_for(DType type) {
  using enum DType;
  static constexpr std::array kLikeFp64 = {kFp64, kFp32, kFp16, kBf16};
  static constexpr std::array kLikeFp32 = {kFp32, kFp64, kFp16, kBf16};
  static constexpr std::array kLikeFp16 = {kFp16, kFp32, kFp64, kBf16};
  static constexpr std::array kLikeBf16 = {kBf16, kFp32, kFp64, kFp16};
  static constexpr std::array kLikeInt32 = {kInt32, kFp32, kFp64, kFp16, kBf16};
  static constexpr std::array kLikeInt64 = {kInt64, kFp64, kFp32, kFp16, kBf16};
  switch (type) {
    case kFp64:
      return kLikeFp64;
    case kFp32:
      return kLikeFp32;
    case kFp16:
      return kLikeFp16;
    case kBf16:
      return kLikeBf16;
    case kInt32:
      return kLikeInt32;
    case kInt64:
      return kLikeInt64;
  }
  CHECK(false);
}

}  // namespace

FlopsPerSecond peak_of(const machine::Device& device, DType dtype) {
  for (const DType stand_in : rates_for(dtype)) {
    const auto found = device.peak.find(stand_in);
    if (found != device.peak.end()) return found->second;
  }
  // Only integer rates are listed.
  CHECK(!device.peak.empty(), device.name);
  return device.peak.begin()->second;
}

std::int64_t row_sparse_elements(const Shape& indices, const Shape& table) {
  return std::min(indices.count() * table[table.rank() - 1], table.count());
}

Bytes update_bytes(double elements, DType weight, plan::Optimizer optimizer,
                   const plan::Precision& precision) {
  const auto states = static_cast<double>(plan::states(optimizer));
  const bool master = precision.has_master(weight);
  const Bytes state = size_of(precision.state(weight));
  const Bytes updated = master ? 2 * state + size_of(weight) : 2 * size_of(weight);
  return elements * (updated + 2 * states * state + size_of(precision.gradient(weight)));
}

Work forward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output) {
  return forward(op, inputs, output).work;
}

Work backward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output,
                   std::size_t differentiated_inputs) {
  if (differentiated_inputs == 0) return {};
  const auto [work, products, own_bytes] = forward(op, inputs, output);
  const auto passes = products > 0 ? std::min(products, differentiated_inputs) : 2;
  const Flops flops = static_cast<double>(passes) * work.flops;
  if (own_bytes) return {flops, 2 * work.bytes};

  // Which operands are differentiated is not known here, so each counts as an average one.
  const auto indices = static_cast<std::size_t>(std::popcount(op.spec().index_inputs));
  const auto floats = std::max(inputs.size() - indices, differentiated_inputs);
  const double written = static_cast<double>(differentiated_inputs) / static_cast<double>(floats);
  const Bytes operands = operand_bytes(inputs);
  return {flops, output.shard_bytes() + operands + written * operands};
}

Seconds task_time(const machine::Device& device, const Work& work, DType dtype) {
  const Seconds compute = work.flops / (peak_of(device, dtype) * device.compute_utilization);
  const Seconds memory = work.bytes / (device.bandwidth * device.memory_utilization);
  return std::max(compute, memory) + device.launch;
}

Seconds slowest_task_time(const machine::Machine& machine, const machine::Digits& digits,
                          const machine::Layout& layout, const Work& work, DType dtype) {
  if (machine.groups.empty()) return task_time(machine.device, work, dtype);
  // One device stands for those alike in the digits that tell groups apart.
  const auto tell = group_digits(machine, digits);
  auto held = layout;
  for (std::size_t i = 0; i < held.count(); ++i) {
    if ((tell >> i & 1U) == 0) held.set(i, machine::DigitRole::kReplica);
  }
  Seconds out;
  for (const auto device : digits.group(0, tell)) {
    if (!holds(held, digits, device)) continue;
    out = std::max(out, task_time(machine.device_of(device), work, dtype));
  }
  return out;
}

}  // namespace tandem::cost
