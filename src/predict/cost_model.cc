#include "predict/cost_model.h"

#include <algorithm>
#include <limits>

#include "lower/fused_updates.h"
#include "lower/row_sparse.h"
#include "predict/collectives.h"
#include "predict/task_work.h"

namespace tandem::predict {

using machine::DigitRole;
using machine::Layout;

Seconds CostModel::reshard_time(const Layout& from, const Layout& to, double bytes) {
  const auto both = transitions_.find_transitions(transitions_.intern_layout(from),
                                                  transitions_.intern_layout(to));
  return transitions_.time(transitions_[both.there], bytes);
}

CostModel::ReshardCost CostModel::pair_cost(Transitions::Both both, double bytes,
                                            std::optional<double> gradient_bytes) const {
  const auto& there = transitions_[both.there];
  ReshardCost out{.time = transitions_.time(there, bytes),
                  .memory = Bytes{there.memory * bytes},
                  .outer = transitions_.outer_time(there, bytes),
                  .rooted = transitions_.rooted_time(there, bytes)};
  out.forward = out.time;
  out.forward_outer = out.outer;
  out.forward_rooted = out.rooted;
  if (!gradient_bytes) return out;
  const auto& back = transitions_[both.back];
  out.time += transitions_.time(back, *gradient_bytes);
  out.outer += transitions_.outer_time(back, *gradient_bytes);
  out.rooted += transitions_.rooted_time(back, *gradient_bytes);
  return out;
}

std::optional<double> CostModel::gradient_bytes(const TensorType& tensor,
                                                std::optional<DType> gradient) {
  if (!gradient) return std::nullopt;
  return get_element_size(*gradient) / get_element_size(tensor.dtype) * tensor.whole_bytes().value;
}

Cost CostModel::reshard_cost(const TensorType& tensor, LayoutId from, LayoutId to,
                             std::optional<DType> gradient, bool blocks) {
  if (from == to) return {};
  const auto moved = this->pair_cost(transitions_.find_transitions(from, to),
                                     tensor.whole_bytes().value, gradient_bytes(tensor, gradient));
  Cost out;
  (blocks ? out.blocking : out.async) = moved.time;
  out.memory = moved.memory;
  out.outer = moved.outer;
  out.forward = {{}, blocks ? moved.forward : Seconds{}, moved.forward_outer};
  return out;
}

std::vector<CostModel::ReshardCost> CostModel::reshard_costs(const TensorType& tensor,
                                                             const LayoutList& from,
                                                             const LayoutList& to,
                                                             std::optional<DType> gradient) {
  const double bytes = tensor.whole_bytes().value;
  const auto back = gradient_bytes(tensor, gradient);
  const auto& pairs = transitions_.find_transitions(from, to);
  constexpr Seconds kNever{std::numeric_limits<double>::infinity()};
  std::vector<ReshardCost> out;
  out.reserve(pairs.size());
  for (const auto& both : pairs) {
    out.push_back(both.is_possible() ? pair_cost(both, bytes, back) : ReshardCost{kNever, {}});
  }
  return out;
}

// A halo exchange never counts as blocking: what it can overlap with depends on the place in the
// graph, and the lower bound must stay valid.
Cost CostModel::halo_cost(const TensorType& tensor, const ops::Signature& s, std::size_t input,
                          const Layout& layout, bool gradient) const {
  const auto windows = compute_windows(s, input, layout, digits_);
  if (windows.empty()) return {};
  const auto& sizes = tensor.shape.sizes;
  const auto halo = compute_halo(windows, layout, sizes, digits_);
  const auto bytes = [&](std::int64_t n) {
    return static_cast<double>(n) * get_element_size(tensor.dtype);
  };
  const auto once = halo_time(machine_, digits_, halo.digits, bytes(halo.most), halo.messages);
  Cost out;
  out.async = gradient ? 2 * once : once;
  out.memory = bytes(compute_largest_block(windows, layout, sizes, digits_).count());
  return out;
}

Cost CostModel::weight_cost(const Shape& sizes, DType dtype, const Layout& layout,
                            const Shape* looked_up, bool of_product) {
  const auto elements = static_cast<double>(sizes.count());
  const double shard = elements * transitions_.shard_fraction(layout);
  double gradient = shard;
  if (looked_up != nullptr && optimizer_ == plan::Optimizer::kSgd &&
      layout.digits(DigitRole::kReplica) == 0) {
    const auto table = compute_parallel_shape(layout, sizes, digits_)->shard_shape();
    gradient = static_cast<double>(lower::count_row_sparse_elements(*looked_up, table));
  }
  const bool rows = gradient < shard && software().updates_in_tables;
  const bool in_product = (rows || (of_product && software().updates_in_matmuls)) &&
                          lower::may_subtract(optimizer_, dtype) &&
                          layout.digits(DigitRole::kReplica) == 0;
  const Bytes of_gradient = get_element_size(precision_.gradient(dtype));
  Cost out;
  const auto update = in_product ? fused_update_work(std::min(shard, gradient), dtype)
                                 : update_work(std::min(shard, gradient), dtype, optimizer_,
                                               precision_, software());
  out.update = slowest_task_time(machine_, digits_, layout, update, dtype);
  const auto bytes = elements * of_gradient.value;
  const auto both = transitions_.find_transitions(
      transitions_.intern_layout(to_gradient_layout(layout)), transitions_.intern_layout(layout));
  const auto& sum = transitions_[both.there];
  out.async = transitions_.time(sum, bytes);
  // If gradients share collectives, or only rows of a table are sent, the outer time may be less.
  const bool sums_rows =
      looked_up != nullptr && optimizer_ == plan::Optimizer::kSgd && software().sums_rows;
  if (!sums_rows && !software().joined_gradients) out.outer = transitions_.outer_time(sum, bytes);
  out.memory = shard * get_element_size(dtype) +
               shard * plan::state_bytes(optimizer_, precision_, dtype) +
               (in_product ? 0 : gradient) * of_gradient;
  return out;
}

Cost CostModel::frozen_weight_cost(const Shape& sizes, DType dtype, const Layout& layout) const {
  Cost out;
  out.memory = static_cast<double>(sizes.count()) * transitions_.shard_fraction(layout) *
               get_element_size(dtype);
  return out;
}

Cost CostModel::stage_send_cost(const TensorType& weight, const Layout& layout,
                                machine::DigitMask stages) const {
  const double elements =
      static_cast<double>(weight.shape.sizes.count()) * transitions_.shard_fraction(layout);
  Cost out;
  for (const auto dtype : {weight.dtype, precision_.gradient(weight.dtype)}) {
    out.async += collective_time(machine_, digits_, machine::Step::kSend, stages,
                                 elements * get_element_size(dtype));
  }
  return out;
}

Cost CostModel::sharded_storage_cost(const TensorType& weight, const Layout& used,
                                     const Layout& stored, Gathered gathered) {
  const auto& sizes = weight.shape.sizes;
  auto out = this->weight_cost(sizes, weight.dtype, stored);
  out -= this->weight_cost(sizes, weight.dtype, used);
  const double bytes = weight.whole_bytes().value;
  const double scale =
      get_element_size(gradient_dtype(weight.dtype)) / get_element_size(weight.dtype);
  out.async += (gathered == Gathered::kOnce ? 1 : 2) * reshard_time(stored, used, bytes);
  if (gathered == Gathered::kOnce) out.memory += Bytes{bytes * transitions_.shard_fraction(used)};
  out.async += reshard_time(to_gradient_layout(used), to_gradient_layout(stored), scale * bytes);
  return out;
}

CostModel::ShardedTypes CostModel::compute_sharded_types(const ops::Signature& s,
                                                         std::span<const TensorType> operands,
                                                         const TensorType& result,
                                                         const machine::NodeLayout& layout) const {
  const auto type_of = [&](const TensorType& whole, const Layout& l) {
    const auto shape = compute_parallel_shape(l, whole.shape.sizes, digits_);
    CHECK(shape.has_value(), to_text(l));
    return TensorType{*shape, whole.dtype, whole.density};
  };
  ShardedTypes out;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    out.inputs.push_back(type_of(operands[i], compute_input_layout(s, layout, digits_.count(), i)));
  }
  out.where = compute_output_layout(s, layout, digits_.count());
  out.output = type_of(result, out.where);
  return out;
}

Cost CostModel::recompute_cost(const ops::Op& op, const ops::Signature& s,
                               std::span<const TensorType> operands, const TensorType& result,
                               const machine::NodeLayout& layout, const KernelRole& role) const {
  const auto parts = compute_sharded_types(s, operands, result, layout);
  const auto work = forward_work(op, parts.inputs, parts.output, role);
  Cost out;
  out.compute = slowest_task_time(machine_, digits_, parts.where, work, result.dtype);
  out.memory = -1 * parts.output.shard_bytes();
  return out;
}

CostModel::PassTimes CostModel::pass_times(const ShardedTypes& parts, const ops::Op& op,
                                           DType dtype, ops::InputMask differentiated,
                                           const KernelRole& role) const {
  const auto time_of = [&](const Work& work) {
    return slowest_task_time(machine_, digits_, parts.where, work, dtype);
  };
  PassTimes out;
  out.forward = time_of(forward_work(op, parts.inputs, parts.output, role));
  if (differentiated != 0) {
    out.backward = time_of(backward_work(op, parts.inputs, parts.output, differentiated, role));
  }
  return out;
}

CostModel::PassTimes CostModel::pass_times(const ops::Op& op, const ops::Signature& s,
                                           std::span<const TensorType> operands,
                                           const TensorType& result,
                                           const machine::NodeLayout& layout,
                                           ops::InputMask differentiated,
                                           const KernelRole& role) const {
  return pass_times(compute_sharded_types(s, operands, result, layout), op, result.dtype,
                    differentiated, role);
}

Cost CostModel::operator_cost(const ops::Op& op, const ops::Signature& s,
                              std::span<const TensorType> operands, const TensorType& result,
                              const machine::NodeLayout& layout, ops::InputMask differentiated,
                              const KernelRole& role) const {
  const auto parts = compute_sharded_types(s, operands, result, layout);
  const auto times = pass_times(parts, op, result.dtype, differentiated, role);
  Cost out;
  out.compute = times.forward + times.backward;
  out.forward.compute = times.forward;
  out.memory = parts.output.shard_bytes();
  return out;
}

}  // namespace tandem::predict
