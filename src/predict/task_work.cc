#include "predict/task_work.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "machine/peak.h"

namespace tandem::predict {

namespace {

std::vector<Shape> get_unsharded_shapes(std::span<const TensorType> types) {
  std::vector<Shape> out;
  for (const auto& type : types) out.push_back(type.shape.sizes);
  return out;
}

// Returns the share of the operator's work that one task computes. Each sharded factor shows in the
// result as a degree or as partial values. Partial values that merely pass through came in with an
// operand.
double compute_task_share(std::span<const TensorType> inputs, const TensorType& output) {
  std::int64_t through = 1;
  for (const auto& type : inputs) through = std::max(through, type.shape.partial);
  return static_cast<double>(through) /
         static_cast<double>(output.shape.degrees.count() * output.shape.partial);
}

// Returns the part of the rows that is computed. Rows that are zero by construction are not.
double compute_density(std::span<const TensorType> inputs, const TensorType& output) {
  double least = output.density;
  for (const auto& type : inputs) least = std::min(least, type.density);
  return least;
}

// Returns the number of inputs that a contraction multiplies: those with a factor that the output
// lacks. Returns 0 for other operators. A fused bias does not count, and an activation after the
// sum changes nothing.
std::size_t count_contracted_inputs(const ops::IndexMap& map) {
  return static_cast<std::size_t>(std::ranges::count_if(map.inputs, [&](const auto& dims) {
    return std::ranges::any_of(dims, [&](const term::Dim& dim) {
      return std::ranges::any_of(
          dim.at.parts, [&](const auto& part) { return map.find_output_dim(part.factor) < 0; });
    });
  }));
}

bool has(ops::InputMask mask, std::size_t i) { return ((mask >> i) & 1U) != 0; }

struct OperatorTask {
  const ops::Op& op;
  std::span<const TensorType> inputs;
  const TensorType& output;
  std::vector<Shape> shapes;
  const ops::Signature& signature;

  OperatorTask(const ops::Op& o, std::span<const TensorType> in, const TensorType& out)
      : op(o),
        inputs(in),
        output(out),
        shapes(get_unsharded_shapes(in)),
        signature(ops::get_signature(o, shapes)) {
    CHECK(op.role() == ops::Role::kCompute, op.name());
  }

  [[nodiscard]] Flops flops() const {
    return compute_task_share(inputs, output) * compute_density(inputs, output) * signature.flops;
  }
  // Returns the backward flops for the gradients of `differentiated`, relative to the
  // forward flops.
  [[nodiscard]] double backward_ratio(ops::InputMask differentiated) const {
    if (op.spec().flops(op.raw(), shapes)) return 2;
    const auto products = count_contracted_inputs(signature.map);
    const auto count = static_cast<std::size_t>(std::popcount(differentiated));
    return products > 0 ? static_cast<double>(std::min(products, count)) : 2;
  }
  [[nodiscard]] MatmulShape matmul(const ops::Contraction& c, double joined) const {
    std::vector<ParallelShape> parallel;
    parallel.reserve(inputs.size());
    for (const auto& type : inputs) parallel.push_back(type.shape);
    auto out = make_matmul(signature, c, infer_grid(signature, parallel));
    out.rows *= compute_density(inputs, output);
    out.columns *= joined;
    return out;
  }
  [[nodiscard]] std::optional<Bytes> own_bytes() const { return op.spec().bytes(op.raw(), inputs); }
  // Returns the part of the operator's `own` bytes that are rows of a table; the rest are indices
  // and result.
  [[nodiscard]] Bytes random_bytes(Bytes own) const {
    if (op.spec().pace != ops::Pace::kLookup) return {};
    return own - inputs[0].shard_bytes() - output.shard_bytes();
  }
};

// Returns the bytes that the operator reads of input `i`. If each output element needs few input
// elements, it reads no more elements than it writes: a slice reads only its own part.
Bytes count_read_bytes(const OperatorTask& o, std::size_t i) {
  const auto& map = o.signature.map;
  const auto bytes = o.inputs[i].shard_bytes();
  for (ops::FactorId f = 0; f < map.factors.size(); ++f) {
    if (map.find_output_dim(f) < 0) return bytes;
  }
  const auto elements = o.output.shard_bytes() / get_element_size(o.output.dtype);
  return std::min(bytes, elements * get_element_size(o.inputs[i].dtype));
}

Bytes forward_bytes(const OperatorTask& o, const KernelRole& role) {
  Bytes out = role.hidden ? Bytes{} : o.output.shard_bytes();
  for (std::size_t i = 0; i < o.inputs.size(); ++i) {
    if (!has(role.inside, i)) out += count_read_bytes(o, i);
  }
  return out;
}

// Returns whether the gradient of operand `i` is the result's gradient in the same layout.
bool passes_gradient_through(const OperatorTask& o, std::size_t i, const KernelRole& role) {
  const auto& type = o.inputs[i];
  return has(o.signature.added_inputs, i) && o.signature.elementwise && !has(role.inside, i) &&
         !role.hidden && type.dtype == o.output.dtype && type.shape.sizes == o.output.shape.sizes;
}

Bytes backward_bytes(const OperatorTask& o, ops::InputMask differentiated, const KernelRole& role) {
  Bytes read;
  Bytes written;
  bool computes = false;
  for (std::size_t i = 0; i < o.inputs.size(); ++i) {
    const auto bytes = o.inputs[i].shard_bytes();
    if (has(o.signature.backward_reads, i)) read += bytes;
    if (!has(differentiated, i) || passes_gradient_through(o, i, role)) continue;
    computes = true;
    if (!has(role.inside, i)) written += bytes;
  }
  if (!computes) return {};
  if (!role.hidden) read += o.output.shard_bytes();
  return read + written;
}

// Sets the key under which the work was measured. Measured times only apply if the software runs
// each operator as a kernel of its own.
void set_measured_key(Work& work, const OperatorTask& o, Hash pass, const KernelRole& role) {
  if (role != KernelRole{}) return;
  work.kind = machine::hash_kind(pass, o.output.dtype, o.op.hash());
  for (const auto& type : o.inputs) {
    work.shapes.add(type.shape.shard_shape());
  }
  work.shapes.add(o.output.shape.shard_shape());
}

}  // namespace

FlopsPerSecond get_peak(const machine::Device& device, DType dtype) {
  return device.peak.at(find_peak_type(device, dtype));
}

FlopsPerSecond compute_total_peak(const machine::Machine& machine, DType dtype) {
  if (machine.groups.empty()) {
    return get_peak(machine.device, dtype) * static_cast<double>(machine.devices());
  }
  FlopsPerSecond out;
  for (const auto& group : machine.groups) {
    const auto devices = group.units * machine.devices_below(0);
    out += get_peak(group.device, dtype) * static_cast<double>(devices);
  }
  return out;
}

Hash make_update_key(DType weight, plan::Optimizer optimizer, bool of_rows) {
  return machine::MeasuredKind{.pass = "update",
                               .dtype = weight,
                               .name = std::string(name(optimizer)),
                               .attributes = of_rows ? "rows" : ""}
      .hash();
}

Work update_work(double elements, DType weight, plan::Optimizer optimizer,
                 const plan::Precision& precision, const machine::Software& software) {
  const double of_weight = precision.has_master(weight) ? 1 : 2;  // 2: it is read, too
  const Bytes moved = 2 * plan::state_bytes(optimizer, precision, weight) +
                      of_weight * get_element_size(weight) +
                      get_element_size(precision.gradient(weight));
  Work out{.flops = {}, .bytes = elements * moved};
  if (software.update_bytes > Bytes{}) out.bytes = elements * software.update_bytes;
  if (software.fusion == machine::Fusion::kElementwise) out.kernels = 0;
  out.kind = make_update_key(weight, optimizer, false);
  out.shapes.add({static_cast<std::int64_t>(elements)});
  return out;
}

Work addition_work(std::int64_t elements, DType dtype, Bytes bytes) {
  Work out{.flops = {}, .bytes = bytes};
  out.kind = machine::MeasuredKind{"sum", dtype, "add", ""}.hash();
  out.shapes.add({elements});
  return out;
}

Work fused_update_work(double elements, DType weight) {
  return {.flops = {}, .bytes = elements * get_element_size(weight), .kernels = 0};
}

Work forward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output,
                  const KernelRole& role) {
  const OperatorTask o(op, inputs, output);
  Work out{.flops = o.flops(), .bytes = {}, .joined = role.joined, .kernels = role.forward};
  out.pace = op.spec().pace;
  const auto own = o.own_bytes();
  out.bytes = role.forward_passes * (own ? *own : forward_bytes(o, role));
  if (own) out.random = role.forward_passes * o.random_bytes(*own);
  if (const auto& c = o.signature.contraction) {
    out.matmuls[out.matmul_count++] = o.matmul(*c, role.joined);
  }
  set_measured_key(out, o, machine::hash_pass(false, 0), role);
  return out;
}

Work backward_work(const ops::Op& op, std::span<const TensorType> inputs, const TensorType& output,
                   ops::InputMask differentiated, const KernelRole& role) {
  if (differentiated == 0) return {.flops = {}, .bytes = {}, .kernels = 0};
  const OperatorTask o(op, inputs, output);
  Work out{.flops = (o.backward_ratio(differentiated) + op.spec().backward_recompute) * o.flops(),
           .bytes = {},
           .joined = role.joined,
           .kernels = role.backward};
  set_measured_key(out, o, machine::hash_pass(true, differentiated), role);
  out.pace = op.spec().pace;
  out.backward = true;
  const auto own = o.own_bytes();
  out.bytes = role.backward_passes * (own ? 2 * *own : backward_bytes(o, differentiated, role));
  if (own) out.random = 2 * role.backward_passes * o.random_bytes(*own);
  // All gradients equal the result's gradient: nothing is computed or copied.
  const bool handed_on = out.bytes == Bytes{} && o.signature.elementwise;
  if (handed_on) return {.flops = {}, .bytes = {}, .kernels = 0};
  if (const auto& c = o.signature.contraction) {
    const auto product = o.matmul(*c, role.joined);
    if (has(differentiated, c->lhs)) out.matmuls[out.matmul_count++] = product.lhs_gradient();
    if (has(differentiated, c->rhs)) out.matmuls[out.matmul_count++] = product.rhs_gradient();
  }
  return out;
}

Flops forward_flops(const ops::Op& op, std::span<const TensorType> inputs,
                    const TensorType& output) {
  return compute_density(inputs, output) *
         ops::get_signature(op, get_unsharded_shapes(inputs)).flops;
}

Flops backward_flops(const ops::Op& op, std::span<const TensorType> inputs,
                     const TensorType& output, ops::InputMask differentiated) {
  if (differentiated == 0) return {};
  const OperatorTask o(op, inputs, output);
  return o.backward_ratio(differentiated) * forward_flops(op, inputs, output);
}

DType find_compute_dtype(const graph::Graph& graph) {
  auto out = graph.node(graph.outputs()[0]).type.dtype;
  Bytes largest;
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    if (!graph::is_weight(node) || node.type.whole_bytes() <= largest) continue;
    largest = node.type.whole_bytes();
    out = node.type.dtype;
  }
  return out;
}

double count_launches(const machine::Device& device, const Work& work) {
  const bool in_products = device.units > 0 && work.matmul_count > 0;
  return work.kernels * (in_products ? static_cast<double>(work.matmul_count) : 1);
}

namespace {

Seconds compute_time(const machine::Device& device, const Work& work, FlopsPerSecond peak) {
  if (work.pace == ops::Pace::kAttention && device.attention_utilization > 0) {
    const bool own = work.backward && device.attention_backward_utilization > 0;
    return work.flops /
           (peak * (own ? device.attention_backward_utilization : device.attention_utilization));
  }
  if (device.units == 0 || work.matmul_count == 0) {
    return work.flops / (peak * device.compute_utilization);
  }
  Seconds out;
  for (std::size_t p = 0; p < work.matmul_count; ++p) {
    out += matmul_time(device, work.matmuls[p], peak) / work.joined;
  }
  return out;
}

}  // namespace

Seconds modelled_time(const machine::Device& device, const Work& work, DType dtype) {
  const auto bandwidth = device.bandwidth * device.memory_utilization;
  const Seconds memory =
      (work.bytes - work.random) / bandwidth + work.random / (bandwidth * device.random_access);
  return std::max(compute_time(device, work, get_peak(device, dtype)), memory) +
         count_launches(device, work) * device.launch;
}

Seconds task_time(const machine::Device& device, const Work& work, DType dtype) {
  const auto modelled = modelled_time(device, work, dtype);
  if (work.kind == 0 || device.measured.empty()) return modelled;
  return device.measured.estimate_time(work.kind, work.shapes, modelled);
}

Seconds slowest_task_time(const machine::Machine& machine, const machine::Digits& digits,
                          const machine::Layout& layout, const Work& work, DType dtype) {
  if (machine.groups.empty()) return task_time(machine.device, work, dtype);
  // Among devices with equal coordinates in the digits that distinguish groups, one represents all.
  const auto tell = find_group_digits(machine, digits);
  auto held = layout;
  for (std::size_t i = 0; i < held.count(); ++i) {
    if ((tell >> i & 1U) == 0) held.set(i, machine::DigitRole::kReplica);
  }
  Seconds out;
  for (const auto device : digits.group(0, tell)) {
    if (!holds_shard(held, digits, device)) continue;
    out = std::max(out, task_time(machine.get_device(device), work, dtype));
  }
  return out;
}

}  // namespace tandem::predict
