#include "search/least_memory.h"

#include "search/evaluated.h"

namespace tandem::search {

namespace {

Bytes compute_usable_memory(const machine::Machine& machine, const Options& options) {
  const auto limits = compute_memory_limits(machine, options.memory, options.margin);
  if (machine.groups.empty()) return limits[0] * static_cast<double>(machine.devices());
  double units = 0;
  for (const auto& group : machine.groups) units += static_cast<double>(group.units);
  Bytes sum;
  for (std::size_t g = 0; g < limits.size(); ++g) {
    const auto share = static_cast<double>(machine.groups[g].units) / units;
    sum += limits[g] * (share * static_cast<double>(machine.devices()));
  }
  return sum;
}

}  // namespace

Bytes compute_stored_bytes(const graph::Node& weight, plan::Optimizer optimizer,
                           const plan::Precision& precision) {
  const auto whole = weight.type.whole_bytes();
  if (!is_trained(weight)) return whole;
  // Plain SGD can subtract a gradient as soon as it is computed. Of an embedding table, only few
  // rows have a gradient.
  const bool keeps_gradients = optimizer != plan::Optimizer::kSgd;
  const auto dtype = weight.type.dtype;
  const double elements = whole / get_element_size(dtype);
  auto out = whole + elements * plan::state_bytes(optimizer, precision, dtype);
  if (keeps_gradients) out += get_element_size(precision.gradient(dtype)) * elements;
  return out;
}

Bytes compute_least_stored(const graph::Graph& model, plan::Optimizer optimizer,
                           const plan::Precision& precision) {
  Bytes sum;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (is_weight(node)) sum += compute_stored_bytes(node, optimizer, precision);
  }
  return sum;
}

bool is_too_large(const graph::Graph& model, const machine::Machine& machine,
                  const Options& options) {
  return compute_least_stored(model, options.optimizer, options.precision) >
         compute_usable_memory(machine, options);
}

}  // namespace tandem::search
