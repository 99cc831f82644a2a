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

ops::InputMask differentiated(const Task& task) {
  ops::InputMask out = 0;
  for (auto i : task.operands) out |= ops::InputMask{1} << i;
  return out;
}

// Returns whether another task counts the model flops of `task`: it recomputes, or works on another
// block of a ring.
bool is_again(const Task& task) { return task.remade || (task.block && !task.block->first); }

}  // namespace

Durations::Durations(const lower::Program& program, const machine::Machine& machine,
                     Operations* known)
    : program_(program),
      machine_(machine),
      roles_(kernels_of(program.pcg, machine.device.software)),
      made_by_(program.buffers.size()),
      // The key of a ring contains its digits, whose meaning differs between programs.
      operations_(known != nullptr && !program.schedule.ring ? *known : own_) {
  types_.reserve(program.pcg.size());
  for (auto id : program.pcg.ids()) types_.push_back(type_hash(program.pcg.node(id).type));
  if (machine_.groups.empty()) devices_.push_back(&machine_.device);
  for (const auto& group : machine_.groups) devices_.push_back(&group.device);
  if (machine.device.software.joined_gradients) joined_ = gradient_syncs(program);
  flops_of_task_.resize(program.tasks.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    stop_point();
    add(t);
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
      return operation_of(task).work;
    case TaskKind::kAccumulate:
    case TaskKind::kCollect:
      return streaming_work(task);
    case TaskKind::kUpdate:
      return update_work(task);
    default:
      return {};
  }
}

// Adds the durations of task `t`, one for each group's devices.
void Durations::add(std::size_t t) {
  const auto& task = program_.tasks[t];
  switch (task.kind) {
    case TaskKind::kBackward:
      for (auto b : task.writes) made_by_[b.index()] = task.node;
      [[fallthrough]];
    case TaskKind::kForward: {
      const auto& [work, model] = operation_of(task);
      if (!is_again(task)) flops_of_task_[t] = model;
      return add_work(task, work, program_.pcg.node(task.node).type.dtype);
    }
    case TaskKind::kMove:
      return add_move(t);
    case TaskKind::kSend:
    case TaskKind::kReceive:
      return add_for_all(move_time(task), kSend);
    case TaskKind::kSeed:
    case TaskKind::kJoin:
      return add_for_all(Seconds{}, kNothing);
    case TaskKind::kAccumulate:
    case TaskKind::kCollect:
      return add_work(task, streaming_work(task), program_.buffer(task.writes[0]).dtype);
    case TaskKind::kUpdate:
      return add_work(task, update_work(task), program_.buffer(task.reads[0]).dtype);
  }
  CHECK(false);
}

void Durations::add_for_all(Seconds time, Dispatched what) {
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
  const auto bytes = moved_bytes(program_, task);
  add_for_all(carrying_time(machine_, program_.digits, task.step.kind, task.step.digits, bytes),
              kNothing);
}

void Durations::add_work(const Task& task, const Work& work, DType dtype) {
  for (const auto* device : devices_) {
    duration_.push_back(task_time(*device, work, dtype));
    const auto& software = device->software;
    const bool backward = task.backward && !task.remade;
    dispatch_.push_back(launches(*device, work) *
                        (backward ? software.dispatch_backward : software.dispatch));
  }
}

Work Durations::work_of(const Task& task, std::span<const TensorType> inputs,
                        const TensorType& output) const {
  const auto& op = program_.pcg.node(task.node).op;
  const auto role = role_of(roles_, task.node);
  return task.kind == TaskKind::kForward
             ? forward_work(op, inputs, output, role)
             : backward_work(op, inputs, output, differentiated(task), role);
}

// Returns the flops of all devices together, from unsharded shapes.
Flops Durations::model_flops_of(const Task& task) const {
  const auto whole = [](const TensorType& type) {
    return TensorType{ParallelShape(type.shape.sizes), type.dtype, type.density};
  };
  auto inputs = program_.pcg.input_types(task.node);
  for (auto& type : inputs) type = whole(type);
  const auto& node = program_.pcg.node(task.node);
  return task.kind == TaskKind::kForward
             ? forward_flops(node.op, inputs, whole(node.type))
             : backward_flops(node.op, inputs, whole(node.type), differentiated(task));
}

Hash Durations::key_of(const Task& task) const {
  Hash h = hash_combine(static_cast<Hash>(task.kind), differentiated(task));
  const auto add = [&h](Hash value) { h = hash_combine(h, value); };
  const auto& node = program_.pcg.node(task.node);
  add(node.op.hash());
  for (auto i : program_.pcg.inputs(task.node)) add(types_[i.index()]);
  add(types_[task.node.index()]);
  if (!roles_.empty()) add(hash_of(roles_[task.node.index()]));
  if (task.block) {
    add(task.block->factor);
    add(task.block->ring);
  }
  return h;
}

const Operation& Durations::operation_of(const Task& task) const {
  const auto [at, fresh] = operations_.try_emplace(key_of(task));
  auto& [work, model] = at->second;
  if (fresh) {
    model = model_flops_of(task);
    work = task.block ? work_of_block(task)
                      : work_of(task, program_.pcg.input_types(task.node),
                                program_.pcg.node(task.node).type);
  }
  return at->second;
}

// Returns the work of one block of a ring, as if the ring's devices sharded the factor.
Work Durations::work_of_block(const Task& task) const {
  const auto& node = program_.pcg.node(task.node);
  const auto& s = signature_of(program_.pcg, task.node);
  auto inputs = program_.pcg.input_types(task.node);
  std::vector<ParallelShape> shapes;
  shapes.reserve(inputs.size());
  for (const auto& type : inputs) shapes.push_back(type.shape);
  auto grid = ops::infer_grid(s, shapes);
  grid.degrees[task.block->factor] *= program_.digits.group_size(task.block->ring);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].shape = input_shape(s, grid, i);
  const TensorType output{output_shape(s, grid), node.type.dtype, node.type.density};
  return work_of(task, inputs, output);
}

Seconds Durations::move_time(const Task& task) const {
  const auto bytes = moved_bytes(program_, task);
  const auto& step = task.step;
  if (step.kind == machine::Step::kSend) {
    const auto copies = step.before.digits(machine::DigitRole::kReplica);
    return send_time(machine_, program_.digits, step.digits, copies, bytes);
  }
  return is_halo(step.kind)
             ? halo_time(machine_, program_.digits, step.digits, bytes,
                         halo_of(program_, task).messages)
             : collective_time(machine_, program_.digits,
                               sums_rows(program_, task) ? machine::Step::kAllGather : step.kind,
                               step.digits, bytes);
}

// Returns whether the gradient that `task` adds is part of the sum that a fused matmul already
// computes.
bool Durations::comes_with_another(const Task& task) const {
  if (roles_.empty() || task.kind != TaskKind::kAccumulate) return false;
  const auto user = made_by_[task.reads[1].index()];
  return user && roles_[user->index()].gradient_joined;
}

// Returns the work of reading and writing the task's buffers once.
Work Durations::streaming_work(const Task& task) const {
  if (comes_with_another(task)) {
    Work work;
    work.kernels = 0;
    return work;
  }
  Bytes bytes;
  for (auto b : task.reads) bytes += program_.buffer(b).bytes();
  for (auto b : task.writes) bytes += program_.buffer(b).bytes();
  const auto& sum = program_.buffer(task.writes[0]);
  return accumulate_work(sum.shard.count(), sum.dtype, bytes);
}

Work Durations::update_work(const Task& task) const {
  const auto& weight = program_.buffer(task.reads[0]);
  const auto& gradient = program_.buffer(task.reads[1]);
  const auto elements = [](const lower::Buffer& b) { return b.bytes() / size_of(b.dtype); };
  if (gradient.in_product) {
    const auto changed = gradient.sparse_elements ? static_cast<double>(*gradient.sparse_elements)
                                                  : elements(weight);
    return update_in_product_work(changed, weight.dtype);
  }
  auto out = predict::update_work(std::min(elements(weight), elements(gradient)), weight.dtype,
                                  program_.optimizer, program_.schedule.precision,
                                  machine_.device.software);
  if (gradient.sparse_elements) {
    out.kind = kind_of_update(weight.dtype, program_.optimizer, true);
  }
  return out;
}

}  // namespace tandem::predict
