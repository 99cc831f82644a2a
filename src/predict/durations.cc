#include "predict/durations.h"

#include <algorithm>
#include <bit>

#include "base/stop.h"
#include "lower/row_sparse.h"
#include "ops/task_grid.h"
#include "predict/collectives.h"
#include "predict/gradient_sync.h"

namespace tandem::predict {

using graph::NodeId;
using lower::Task;
using lower::TaskKind;

namespace {

bool takes_host_time(const machine::Device& device) {
  const auto& s = device.software;
  return std::max({s.dispatch, s.dispatch_backward, s.dispatch_collective, s.dispatch_send}) >
         Seconds{};
}

ops::InputMask make_differentiated_mask(const Task& task) {
  ops::InputMask out = 0;
  for (auto i : task.operands) out |= ops::InputMask{1} << i;
  return out;
}

// Returns whether another task counts the model flops of `task`: it recomputes, or works on another
// block of a ring.
bool has_redundant_flops(const Task& task) {
  return task.recomputed || (task.block && !task.block->first);
}

}  // namespace

Durations::Durations(const lower::Program& program, const machine::Machine& machine,
                     Operations* known)
    : program_(program),
      machine_(machine),
      roles_(find_kernel_roles(program.pcg, machine.device.software)),
      gradient_nodes_(program.buffers.size()),
      // The key of a ring contains its digits, whose meaning differs between programs.
      operations_(known != nullptr && !program.schedule.ring ? *known : own_) {
  types_.reserve(program.pcg.size());
  for (auto id : program.pcg.ids()) types_.push_back(hash_type(program.pcg.node(id).type));
  if (machine_.groups.empty()) devices_.push_back(&machine_.device);
  for (const auto& group : machine_.groups) devices_.push_back(&group.device);
  if (machine.device.software.joined_gradients) joined_ = find_gradient_syncs(program);
  flops_of_task_.resize(program.tasks.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    throw_if_stopped();
    add_task(t);
    model_flops_ += flops_of_task_[t];
  }
  const bool takes_any = std::ranges::any_of(
      devices_, [](const machine::Device* device) { return takes_host_time(*device); });
  if (!takes_any) dispatch_.clear();
}

Work Durations::work(const Task& task) const {
  switch (task.kind) {
    case TaskKind::kForward:
    case TaskKind::kBackward:
      return find_operator_cost(task).work;
    case TaskKind::kAddGradients:
    case TaskKind::kAccumulateGradient:
      return streaming_work(task);
    case TaskKind::kUpdate:
      return update_work(task);
    default:
      return {};
  }
}

// Adds the durations of task `t`, one for each group's devices.
void Durations::add_task(std::size_t t) {
  const auto& task = program_.tasks[t];
  switch (task.kind) {
    case TaskKind::kBackward:
      for (auto b : task.writes) gradient_nodes_[b.index()] = task.node;
      [[fallthrough]];
    case TaskKind::kForward: {
      const auto& [work, model] = find_operator_cost(task);
      if (!has_redundant_flops(task)) flops_of_task_[t] = model;
      return add_work(task, work, program_.pcg.node(task.node).type.dtype);
    }
    case TaskKind::kMove:
      return add_move(t);
    case TaskKind::kSend:
    case TaskKind::kReceive:
      return add_for_all(move_time(task), kSend);
    case TaskKind::kLossGradient:
    case TaskKind::kJoin:
      return add_for_all(Seconds{}, kNothing);
    case TaskKind::kAddGradients:
    case TaskKind::kAccumulateGradient:
      return add_work(task, streaming_work(task), program_.buffer(task.writes[0]).dtype);
    case TaskKind::kUpdate:
      return add_work(task, update_work(task), program_.buffer(task.reads[0]).dtype);
  }
  CHECK(false);
}

void Durations::add_for_all(Seconds time, DispatchKind what) {
  for (const auto* device : devices_) {
    const auto& software = device->software;
    duration_.push_back(time);
    dispatch_.push_back(what == kNothing      ? Seconds{}
                        : what == kCollective ? software.dispatch_collective
                                              : software.send_dispatch());
  }
}

void Durations::add_move(std::size_t t) {
  const auto& task = program_.tasks[t];
  if (!is_joined(t) || is_halo(task.step.kind)) {
    return add_for_all(move_time(task), is_local(task.step.kind) ? kNothing : kCollective);
  }
  const auto bytes = count_moved_bytes(program_, task);
  add_for_all(bandwidth_time(machine_, program_.digits, task.step.kind, task.step.digits, bytes),
              kNothing);
}

void Durations::add_work(const Task& task, const Work& work, DType dtype) {
  for (const auto* device : devices_) {
    duration_.push_back(task_time(*device, work, dtype));
    const auto& software = device->software;
    const bool backward = task.backward && !task.recomputed;
    dispatch_.push_back(count_launches(*device, work) *
                        (backward ? software.dispatch_backward : software.dispatch));
  }
}

Work Durations::compute_operator_work(const Task& task, std::span<const TensorType> inputs,
                                      const TensorType& output) const {
  const auto& op = program_.pcg.node(task.node).op;
  const auto role = get_role(roles_, task.node);
  return task.kind == TaskKind::kForward
             ? forward_work(op, inputs, output, role)
             : backward_work(op, inputs, output, make_differentiated_mask(task), role);
}

// Returns the flops of all devices together, from unsharded shapes.
Flops Durations::compute_model_flops(const Task& task) const {
  const auto whole = [](const TensorType& type) {
    return TensorType{ParallelShape(type.shape.sizes), type.dtype, type.density};
  };
  auto inputs = program_.pcg.input_types(task.node);
  for (auto& type : inputs) type = whole(type);
  const auto& node = program_.pcg.node(task.node);
  return task.kind == TaskKind::kForward
             ? forward_flops(node.op, inputs, whole(node.type))
             : backward_flops(node.op, inputs, whole(node.type), make_differentiated_mask(task));
}

Hash Durations::make_key(const Task& task) const {
  Hash h = hash_combine(static_cast<Hash>(task.kind), make_differentiated_mask(task));
  const auto add = [&h](Hash value) { h = hash_combine(h, value); };
  const auto& node = program_.pcg.node(task.node);
  add(node.op.hash());
  for (auto i : program_.pcg.inputs(task.node)) add(types_[i.index()]);
  add(types_[task.node.index()]);
  if (!roles_.empty()) add(hash_role(roles_[task.node.index()]));
  if (task.block) {
    add(task.block->factor);
    add(task.block->ring);
  }
  return h;
}

const OperatorCost& Durations::find_operator_cost(const Task& task) const {
  const auto [at, fresh] = operations_.try_emplace(make_key(task));
  auto& [work, model] = at->second;
  if (fresh) {
    model = compute_model_flops(task);
    work = task.block ? compute_block_work(task)
                      : compute_operator_work(task, program_.pcg.input_types(task.node),
                                              program_.pcg.node(task.node).type);
  }
  return at->second;
}

// Returns the work of one block of a ring, as if the ring's devices sharded the factor.
Work Durations::compute_block_work(const Task& task) const {
  const auto& node = program_.pcg.node(task.node);
  const auto& s = get_node_signature(program_.pcg, task.node);
  auto inputs = program_.pcg.input_types(task.node);
  std::vector<ParallelShape> shapes;
  shapes.reserve(inputs.size());
  for (const auto& type : inputs) shapes.push_back(type.shape);
  auto grid = ops::infer_grid(s, shapes);
  grid.degrees[task.block->factor] *= program_.digits.group_size(task.block->ring);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].shape = compute_input_shape(s, grid, i);
  const TensorType output{compute_output_shape(s, grid), node.type.dtype, node.type.density};
  return compute_operator_work(task, inputs, output);
}

Seconds Durations::move_time(const Task& task) const {
  const auto bytes = count_moved_bytes(program_, task);
  const auto& step = task.step;
  if (step.kind == machine::Step::kSend) {
    const auto copies = step.before.digits(machine::DigitRole::kReplica);
    return send_time(machine_, program_.digits, step.digits, copies, bytes);
  }
  return is_halo(step.kind)
             ? halo_time(machine_, program_.digits, step.digits, bytes,
                         compute_halo(program_, task).messages)
             : collective_time(machine_, program_.digits,
                               sums_rows(program_, task) ? machine::Step::kAllGather : step.kind,
                               step.digits, bytes);
}

// Returns whether the gradient that `task` adds is part of the sum that a fused matmul already
// computes.
bool Durations::is_fused_into_matmul(const Task& task) const {
  if (roles_.empty() || task.kind != TaskKind::kAddGradients) return false;
  const auto user = gradient_nodes_[task.reads[1].index()];
  return user && roles_[user->index()].gradient_joined;
}

// Returns the work of reading and writing the task's buffers once.
Work Durations::streaming_work(const Task& task) const {
  if (is_fused_into_matmul(task)) {
    Work work;
    work.kernels = 0;
    return work;
  }
  Bytes bytes;
  for (auto b : task.reads) bytes += program_.buffer(b).bytes();
  for (auto b : task.writes) bytes += program_.buffer(b).bytes();
  const auto& sum = program_.buffer(task.writes[0]);
  return addition_work(sum.shard.count(), sum.dtype, bytes);
}

Work Durations::update_work(const Task& task) const {
  const auto& weight = program_.buffer(task.reads[0]);
  const auto& gradient = program_.buffer(task.reads[1]);
  const auto elements = [](const lower::Buffer& b) {
    return b.bytes() / get_element_size(b.dtype);
  };
  if (gradient.fused_update) {
    const auto changed = gradient.sparse_elements ? static_cast<double>(*gradient.sparse_elements)
                                                  : elements(weight);
    return fused_update_work(changed, weight.dtype);
  }
  auto out = predict::update_work(std::min(elements(weight), elements(gradient)), weight.dtype,
                                  program_.optimizer, program_.schedule.precision,
                                  machine_.device.software);
  if (gradient.sparse_elements) {
    out.kind = make_update_key(weight.dtype, program_.optimizer, true);
  }
  return out;
}

}  // namespace tandem::predict
