#include "search/costs.h"

#include <algorithm>

#include "cost/collectives.h"
#include "cost/operator_time.h"

namespace tandem::search {

using machine::DigitRole;
using machine::Layout;

double CostModel::shard_fraction(const Layout& layout) const {
  machine::DigitMask dims = 0;
  for (std::size_t i = 0; i < layout.count(); ++i) {
    if (layout[i].is_dim()) dims |= machine::bit(i);
  }
  return 1 / static_cast<double>(digits_.group_size(dims));
}

const CostModel::Transition& CostModel::transition(const Layout& from, const Layout& to) {
  const auto [at, fresh] = transitions_.try_emplace(hash_combine(from.hash(), to.hash()));
  Transition& out = at->second;
  if (!fresh) return out;
  constexpr double kProbe = 1e9;
  for (const auto& step : machine::reshard(from, to)) {
    const double fraction = std::max(shard_fraction(step.before), shard_fraction(step.after));
    const auto time = [&](double bytes) {
      return cost::collective_time(machine_, digits_, step.kind, step.digits, Bytes{bytes});
    };
    out.memory += shard_fraction(step.after);
    if (!is_local(step.kind) && !cost::is_affine(machine_, digits_, step.kind, step.digits)) {
      out.curved.push_back({step.kind, step.digits, fraction});
      continue;
    }
    const auto latency = time(0);
    out.latency += latency;
    out.per_byte += fraction * (time(kProbe) - latency).value / kProbe;
  }
  return out;
}

Seconds CostModel::time_of(const Transition& transition, double bytes) const {
  Seconds out = transition.latency + Seconds{transition.per_byte * bytes};
  for (const auto& c : transition.curved) {
    out += cost::collective_time(machine_, digits_, c.kind, c.digits, Bytes{c.fraction * bytes});
  }
  return out;
}

Cost CostModel::reshard(const TensorType& tensor, const Layout& from, const Layout& to,
                        std::optional<DType> gradient, bool blocks) {
  if (from == to) return {};
  const double bytes = tensor.whole_bytes().value;
  const auto& there = transition(from, to);
  const Bytes memory{there.memory * bytes};
  Seconds time = time_of(there, bytes);
  if (gradient) {
    const double scale = size_of(*gradient) / size_of(tensor.dtype);
    time += time_of(transition(dual(to), dual(from)), scale * bytes);
  }
  Cost out;
  (blocks ? out.blocking : out.async) = time;
  out.memory = memory;
  return out;
}

// Never taken for blocking: what runs beside it depends on the place in the graph, and the lower
// bound must stay one.
Cost CostModel::halo(const TensorType& tensor, const ops::Signature& s, std::size_t input,
                     const Layout& layout, bool gradient) const {
  const auto windows = windows_of(s, input, layout, digits_);
  if (windows.empty()) return {};
  const auto& sizes = tensor.shape.sizes;
  const auto halo = halo_of(windows, layout, sizes, digits_);
  const auto bytes = [&](std::int64_t n) { return static_cast<double>(n) * size_of(tensor.dtype); };
  const auto once =
      cost::halo_time(machine_, digits_, halo.digits, bytes(halo.most), halo.messages);
  Cost out;
  out.async = gradient ? 2 * once : once;
  out.memory = bytes(largest_block(windows, layout, sizes, digits_).count());
  return out;
}

Cost CostModel::weight(const Shape& sizes, DType dtype, const Layout& layout,
                       const Shape* looked_up) {
  const auto elements = static_cast<double>(sizes.count());
  const auto& sync = transition(dual(layout), layout);
  const double shard = elements * shard_fraction(layout);
  double gradient = shard;
  if (looked_up != nullptr && optimizer_ == plan::Optimizer::kSgd &&
      layout.digits(DigitRole::kReplica) == 0) {
    const auto table = parallel_shape(layout, sizes, digits_)->shard();
    gradient = static_cast<double>(cost::row_sparse_elements(*looked_up, table));
  }
  const auto states = plan::states(optimizer_) + (precision_.has_master(dtype) ? 1 : 0);
  const Bytes of_gradient = size_of(precision_.gradient(dtype));
  Cost out;
  const auto update =
      cost::update_work(std::min(shard, gradient), dtype, optimizer_, precision_, software());
  out.update = cost::slowest_task_time(machine_, digits_, layout, update, dtype);
  out.async = time_of(sync, elements * of_gradient.value);
  out.memory = shard * size_of(dtype) +
               shard * static_cast<double>(states) * size_of(precision_.state(dtype)) +
               gradient * of_gradient;
  return out;
}

Cost CostModel::frozen_weight(const Shape& sizes, DType dtype, const Layout& layout) const {
  Cost out;
  out.memory = static_cast<double>(sizes.count()) * shard_fraction(layout) * size_of(dtype);
  return out;
}

Cost CostModel::stored_in_parts(const TensorType& weight, const Layout& used, const Layout& stored,
                                Gathered gathered) {
  const auto& sizes = weight.shape.sizes;
  auto out = this->weight(sizes, weight.dtype, stored);
  out -= this->weight(sizes, weight.dtype, used);
  const double bytes = weight.whole_bytes().value;
  const double scale = size_of(gradient_of_weight(weight.dtype)) / size_of(weight.dtype);
  out.async += (gathered == Gathered::kOnce ? 1 : 2) * time_of(transition(stored, used), bytes);
  if (gathered == Gathered::kOnce) out.memory += Bytes{bytes * shard_fraction(used)};
  out.async += time_of(transition(dual(used), dual(stored)), scale * bytes);
  return out;
}

CostModel::Parts CostModel::parts_of(const ops::Signature& s, std::span<const TensorType> operands,
                                     const TensorType& result,
                                     const machine::NodeLayout& layout) const {
  const auto type_of = [&](const TensorType& whole, const Layout& l) {
    const auto shape = parallel_shape(l, whole.shape.sizes, digits_);
    CHECK(shape.has_value(), to_text(l));
    return TensorType{*shape, whole.dtype, whole.density};
  };
  Parts out;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    out.inputs.push_back(type_of(operands[i], input_layout(s, layout, digits_.count(), i)));
  }
  out.where = output_layout(s, layout, digits_.count());
  out.output = type_of(result, out.where);
  return out;
}

Cost CostModel::computed_again(const ops::Op& op, const ops::Signature& s,
                               std::span<const TensorType> operands, const TensorType& result,
                               const machine::NodeLayout& layout,
                               const cost::KernelRole& role) const {
  const auto parts = parts_of(s, operands, result, layout);
  const auto work = cost::forward_work(op, parts.inputs, parts.output, role);
  Cost out;
  out.compute = cost::slowest_task_time(machine_, digits_, parts.where, work, result.dtype);
  out.memory = -1 * parts.output.shard_bytes();
  return out;
}

Cost CostModel::compute(const ops::Op& op, const ops::Signature& s,
                        std::span<const TensorType> operands, const TensorType& result,
                        const machine::NodeLayout& layout, ops::InputMask differentiated,
                        const cost::KernelRole& role) const {
  const auto parts = parts_of(s, operands, result, layout);
  const auto time_of = [&](const cost::Work& work) {
    return cost::slowest_task_time(machine_, digits_, parts.where, work, result.dtype);
  };
  Cost out;
  out.compute = time_of(cost::forward_work(op, parts.inputs, parts.output, role));
  if (differentiated != 0) {
    out.compute +=
        time_of(cost::backward_work(op, parts.inputs, parts.output, differentiated, role));
  }
  out.memory = parts.output.shard_bytes();
  return out;
}

}  // namespace tandem::search
