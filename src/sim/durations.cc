#include "sim/durations.h"

#include "cost/collectives.h"
#include "ops/task_grid.h"

namespace tandem::sim {

using graph::NodeId;
using lower::Task;
using lower::TaskKind;

Durations::Durations(const lower::Program& program, const machine::Machine& machine)
    : program_(program), machine_(machine) {
  if (machine_.groups.empty()) devices_.push_back(&machine_.device);
  for (const auto& group : machine_.groups) devices_.push_back(&group.device);
  for (const auto& task : program_.tasks) add(task);
}

// One for the devices of each group.
void Durations::add(const Task& task) {
  switch (task.kind) {
    case TaskKind::kForward:
    case TaskKind::kBackward:
      return add_work(operator_work(task), program_.pcg.node(task.node).type.dtype);
    case TaskKind::kMove:
    case TaskKind::kSend:
    case TaskKind::kReceive:
      return add_for_all(move_time(task));
    case TaskKind::kSeed:
    case TaskKind::kJoin:
      return add_for_all(Seconds{});
    case TaskKind::kAccumulate:
    case TaskKind::kCollect:
      return add_work(streaming_work(task), program_.buffer(task.writes[0]).dtype);
    case TaskKind::kUpdate:
      return add_work(update_work(task), program_.buffer(task.reads[0]).dtype);
  }
  CHECK(false);
}

void Durations::add_for_all(Seconds time) {
  duration_.insert(duration_.end(), devices_.size(), time);
}

void Durations::add_work(const cost::Work& work, DType dtype) {
  for (const auto* device : devices_) duration_.push_back(cost::task_time(*device, work, dtype));
}

// Of the task on operands of the types that `part` makes of them.
template <class Part>
cost::Work Durations::work_of(const Task& task, Part&& part) const {
  const auto type_of = [&](NodeId id) {
    const auto& type = program_.pcg.node(id).type;
    return TensorType{part(type.shape), type.dtype, type.density};
  };
  std::vector<TensorType> inputs;
  for (auto i : program_.pcg.inputs(task.node)) inputs.push_back(type_of(i));
  const auto& op = program_.pcg.node(task.node).op;
  return task.kind == TaskKind::kForward
             ? cost::forward_work(op, inputs, type_of(task.node))
             : cost::backward_work(op, inputs, type_of(task.node), task.operands.size());
}

cost::Work Durations::operator_work(const Task& task) {
  const bool again = task.remade || (task.block && !task.block->first);
  if (!again) {
    model_flops_ +=
        work_of(task, [](const ParallelShape& s) { return ParallelShape(s.sizes); }).flops;
  }
  return task.block ? work_of_block(task) : work_of(task, [](const ParallelShape& s) { return s; });
}

// As if the devices of the ring shared the factor.
cost::Work Durations::work_of_block(const Task& task) const {
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
  return task.kind == TaskKind::kForward
             ? cost::forward_work(node.op, inputs, output)
             : cost::backward_work(node.op, inputs, output, task.operands.size());
}

Seconds Durations::move_time(const Task& task) const {
  const auto bytes = moved_bytes(program_, task);
  const auto& step = task.step;
  return is_halo(step.kind)
             ? cost::halo_time(machine_, program_.digits, step.digits, bytes,
                               halo_of(program_, task).messages)
             : cost::collective_time(machine_, program_.digits, step.kind, step.digits, bytes);
}

// Reads and writes its buffers once.
cost::Work Durations::streaming_work(const Task& task) const {
  cost::Work work;
  for (auto b : task.reads) work.bytes += program_.buffer(b).bytes();
  for (auto b : task.writes) work.bytes += program_.buffer(b).bytes();
  return work;
}

cost::Work Durations::update_work(const Task& task) const {
  const auto& weight = program_.buffer(task.reads[0]);
  const auto& gradient = program_.buffer(task.reads[1]);
  const auto elements = [](const lower::Buffer& b) { return b.bytes() / size_of(b.dtype); };
  return {.flops = {},
          .bytes = cost::update_bytes(std::min(elements(weight), elements(gradient)), weight.dtype,
                                      program_.optimizer, program_.schedule.precision)};
}

}  // namespace tandem::sim
