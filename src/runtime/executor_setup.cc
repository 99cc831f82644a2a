// The setup of an executor before its first step. It determines which tasks run here and what of
// them stays the same from step to step. It also determines their schedule slots, the lifetime of
// tensors, and the initial values.
#include <algorithm>
#include <limits>
#include <ranges>
#include <set>

#include "lower/row_sparse.h"
#include "lower/schedule_actions.h"
#include "lower/shard_boxes.h"
#include "runtime/aten.h"
#include "runtime/executor.h"
#include "runtime/factor_ranges.h"
#include "runtime/half.h"
#include "runtime/source_values.h"

namespace tandem::runtime {

using lower::Buffer;
using lower::BufferId;
using lower::BufferKind;
using lower::Program;
using lower::Task;
using lower::TaskKind;

namespace {

// Returns whether the task is a collective that overlaps with compute. These are sums of gradients,
// and ring steps, which overlap with work on the previous block. All other collectives are needed
// at once.
bool is_overlapped(const Task& task) {
  if (task.kind != TaskKind::kMove) return false;
  if (task.step.kind == machine::Step::kShift) return true;
  return task.backward && !task.recomputed &&
         (task.step.kind == machine::Step::kAllReduce ||
          task.step.kind == machine::Step::kReduceScatter);
}

}  // namespace

Executor::Executor(const Program& program, std::int64_t device, TrainingOptions training,
                   ExecutionDevice place)
    : program_(program),
      device_(device),
      training_(std::move(training)),
      place_(place.device),
      collectives_(program.digits, device, place.device, std::move(place.network)),
      instances_(program),
      order_(program) {
  // Throws UserError if the runtime does not support a type.
  for (const auto& buffer : program_.buffers) to_aten(buffer.dtype);
  prepare_communication();
  schedule_tasks();
  find_last_uses();
  mark_tasks_that_save();
  find_waits();
  initialise();
}

bool Executor::holds(BufferId id) const {
  return machine::holds_shard(program_.buffer(id).layout, program_.digits, device_);
}

// Creates communicators and announces messages, in the same order on all devices.
void Executor::prepare_communication() {
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  int sends = 0;
  for (const auto& task : program_.tasks) {
    send_number_.push_back(task.kind == TaskKind::kSend ? sends++ : -1);
    if (task.kind == TaskKind::kMove && !is_local(task.step.kind)) {
      collectives_.prepare(task.step.digits);
    }
    if (task.kind != TaskKind::kSend) continue;
    collectives_.prepare(task.step.digits, true);
    const auto& digits = program_.digits;
    for (std::int64_t from = 0; from < digits.devices(); ++from) {
      if (!machine::holds_shard(program_.buffer(task.reads[0]).layout, digits, from)) continue;
      const auto target = static_cast<std::size_t>(find_target_rank(task.step, digits));
      pairs.insert({from, digits.group(from, task.step.digits)[target]});
    }
  }
  for (const auto& [from, to] : pairs) {
    if (from == device_ || to == device_) {
      collectives_.expect(from, to, list_messages(from, to));
    }
  }
}

// Returns the tag of what the task `send` sends in this micro-batch. No two messages have
// the same tag.
int Executor::compute_tag(std::size_t send, std::int64_t micro_batch) const {
  const std::int64_t number = send_number_[send];
  const auto tag = number * program_.digits.micro_batches() + micro_batch;
  CHECK(number >= 0 && tag <= std::numeric_limits<int>::max(), send, tag);
  return static_cast<int>(tag);
}

// Returns the messages in the order of sending.
std::vector<Message> Executor::list_messages(std::int64_t from, std::int64_t to) const {
  std::vector<Message> out;
  const auto& schedule = program_.schedule;
  const auto& digits = program_.digits;
  const auto rank = digits.rank_in_group(from, schedule.digits);
  for (const auto& action : list_actions(schedule, instances_.ranks(), rank, program_.mode)) {
    for (auto t : program_.segment(action.stage, action.phase).tasks) {
      const auto& task = program_.tasks[t];
      if (task.kind != TaskKind::kSend) continue;
      const auto& buffer = program_.buffer(task.reads[0]);
      if (!machine::holds_shard(buffer.layout, digits, from)) continue;
      const auto target = static_cast<std::size_t>(find_target_rank(task.step, digits));
      if (digits.group(from, task.step.digits)[target] != to) continue;
      if (!runs_in(task, action.micro_batch, schedule.micro_batches)) continue;
      const bool image = order_.is_image(task.reads[0]);
      out.push_back({compute_tag(t, action.micro_batch),
                     image ? to_channels_last(buffer.shard) : buffer.shard, to_aten(buffer.dtype)});
    }
  }
  return out;
}

bool Executor::runs_here(const Task& task) const {
  if (task.kind == TaskKind::kMove) return holds(task.reads[0]) || holds(task.writes[0]);
  if (task.kind == TaskKind::kSend) return holds(task.reads[0]);
  return !task.writes.empty() && holds(task.writes[0]);
}

Executor::Ready Executor::prepare(const Task& task) const {
  Ready ready{
      .task = &task, .starts = is_overlapped(task), .of_rows = lower::sums_rows(program_, task)};
  if (task.kind != TaskKind::kForward && task.kind != TaskKind::kBackward) return ready;
  const auto& op = program_.pcg.node(task.node).op;
  ready.call.op = op;
  set_shards(ready.call, task, 0);
  ready.kernel = &find_kernel(ready.call);
  // If a result is wanted in more bits than the operands have, the operands are widened. GPUs are
  // an exception: they multiply fp32 many times slower, and sum bf16 products in fp32.
  const auto is_half = [&](BufferId id) { return program_.buffer(id).dtype == DType::kBf16; };
  const bool all_half = std::ranges::all_of(task.writes, is_half);
  const bool multiplies = multiplies_half(*ready.kernel, place_);
  ready.wide =
      multiplies && !all_half && place_.is_cuda() && is_half(program_.tensor[task.node.index()]);
  const bool as_they_are =
      all_half ? multiplies || takes_half_for_half_results(*ready.kernel, place_) : ready.wide;
  ready.widens = !takes_half(*ready.kernel) && !as_they_are;
  if (task.kind == TaskKind::kBackward) {
    ready.reads_result =
        get_node_signature(program_.pcg, task.node).gradient_from_result.has_value();
    const auto result = program_.tensor[task.node.index()];
    if (ready.reads_result) {
      ready.saved_result = task.reads[0];
    } else if (ready.kernel->uses_result(op) && is_saved_for_backward(result)) {
      ready.saved_result = result;
    }
    for (auto id : task.writes) {
      const auto& gradient = program_.buffer(id);
      if (gradient.fused_update) ready.updates = program_.tensor[gradient.node.index()];
    }
    ready.call.row_sparse = std::ranges::any_of(
        task.writes, [&](BufferId id) { return program_.buffer(id).sparse_elements.has_value(); });
  }
  return ready;
}

// Sets the shards of the operands and of the result of a task, or the parts of them that its block
// covers.
void Executor::set_shards(Call& call, const Task& task, std::int64_t micro_batch) const {
  const auto slot = program_.digits.slot(device_, micro_batch);
  const auto shard_of = [&](const Buffer& buffer) {
    const auto box = lower::compute_box(buffer, program_.digits, slot);
    return Shard{buffer.sizes, box.size, box.offset, buffer.density, buffer.dtype};
  };
  const auto inputs = program_.pcg.inputs(task.node);
  call.operands.clear();
  for (auto input : inputs) {
    call.operands.push_back(shard_of(program_.buffer(program_.tensor[input.index()])));
  }
  call.result = shard_of(program_.buffer(program_.tensor[task.node.index()]));
  // If an operand is read, or its gradient written, in windows, the windows replace its shard.
  const auto set_window = [&](std::size_t operand, BufferId id) {
    if (id == Program::kNone) return;
    if (program_.buffer(id).windows.empty() && !task.block) return;
    call.operands[operand] = shard_of(program_.buffer(id));
  };
  const auto reads = std::min(task.reads.size(), inputs.size());
  for (std::size_t i = 0; i < reads; ++i) set_window(i, task.reads[i]);
  for (std::size_t w = 0; w < task.operands.size(); ++w) {
    set_window(task.operands[w], task.writes[w]);
  }
  if (task.block) narrow_to_block(call, task, slot);
}

void Executor::narrow_to_block(Call& call, const Task& task, std::int64_t slot) const {
  const auto& signature = get_signature(call);
  auto parts = compute_factor_ranges(call, signature);
  const auto f = task.block->factor;
  const auto dim = signature.map.find_input_dim(task.block->operand, f);
  const auto range = compute_range(program_.buffer(task.block->part), program_.digits, slot,
                                   static_cast<std::size_t>(dim));
  parts[f].local = range.size;
  parts[f].offset = range.offset;
  const auto narrow = [&](Shard& shard, const term::Dims& dims) {
    const auto box = term::compute_box(dims, parts);
    shard.local = box.size;
    shard.offset = box.offset;
  };
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    narrow(call.operands[i], signature.map.inputs[i]);
  }
  narrow(call.result, signature.map.output);
}

void Executor::schedule_tasks() {
  std::vector<std::size_t> ready(program_.tasks.size());
  std::vector<bool> here(program_.tasks.size());
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    here[t] = runs_here(program_.tasks[t]);
    if (!here[t]) continue;
    ready[t] = tasks_.size();
    tasks_.push_back(prepare(program_.tasks[t]));
  }
  const auto& schedule = program_.schedule;
  const auto rank = program_.digits.rank_in_group(device_, schedule.digits);
  values_.resize(instances_.count(rank));
  for (const auto& action : list_actions(schedule, instances_.ranks(), rank, program_.mode)) {
    for (auto t : program_.segment(action.stage, action.phase).tasks) {
      if (!here[t]) continue;
      if (!runs_in(program_.tasks[t], action.micro_batch, schedule.micro_batches)) continue;
      scheduled_tasks_.push_back({ready[t], action.micro_batch});
    }
  }
}

// Returns whether the backward pass of some operator needs this tensor, so that it is in memory
// anyway.
bool Executor::is_saved_for_backward(BufferId id) const {
  return std::ranges::any_of(program_.tasks, [&](const Task& task) {
    return task.kind == TaskKind::kBackward &&
           (task.saved == id || std::ranges::find(task.reads, id) != task.reads.end());
  });
}

std::vector<std::string> Executor::list_slow_operators() const {
  std::set<std::string> names;
  for (const auto& ready : tasks_) {
    if (ready.kernel == &kMeaningKernel) names.insert(ready.call.op.name());
  }
  return {names.begin(), names.end()};
}

void Executor::find_last_uses() {
  std::vector<bool> used_later(values_.size());
  for (auto& scheduled : std::views::reverse(scheduled_tasks_)) {
    const auto visit = [&](BufferId id) {
      if (id == Program::kNone || program_.buffer(id).is_persistent()) return;
      const auto instance = instances_.get_index(id, scheduled.micro_batch);
      if (!used_later[instance]) scheduled.last_used.push_back(instance);
      used_later[instance] = true;
    };
    const auto& ready = tasks_[scheduled.ready];
    visit(ready.saved_result);
    for (auto id : ready.task->reads) visit(id);
    for (auto id : ready.task->writes) visit(id);
  }
}

// Marks the slots that must wait: they read or write a buffer that a started collective is yet to
// write.
void Executor::find_waits() {
  std::vector<bool> on_its_way(values_.size());
  for (auto& action : scheduled_tasks_) {
    const auto& ready = tasks_[action.ready];
    const auto visit = [&](BufferId id, bool starts) {
      if (id == Program::kNone) return;
      const auto instance = instances_.get_index(id, action.micro_batch);
      action.waits = action.waits || on_its_way[instance];
      on_its_way[instance] = starts;
    };
    for (auto id : ready.task->reads) visit(id, false);
    for (auto id : ready.task->writes) visit(id, ready.starts);
  }
}

// Marks the tasks that save values for backward. If forward is recomputed, only the second run
// saves them.
void Executor::mark_tasks_that_save() {
  std::vector<int> backward(program_.pcg.size());
  std::vector<bool> again(program_.pcg.size());
  for (const auto& ready : tasks_) {
    const auto& task = *ready.task;
    if (task.kind == TaskKind::kBackward) ++backward[task.node.index()];
    if (task.kind == TaskKind::kForward && task.recomputed) again[task.node.index()] = true;
  }
  for (auto& ready : tasks_) {
    const auto& task = *ready.task;
    const bool forward = task.kind == TaskKind::kForward;
    if (!forward && task.kind != TaskKind::kBackward) continue;
    ready.saves_values = backward[task.node.index()] == 1 && !task.block &&
                         (!forward || task.recomputed == again[task.node.index()]);
  }
  saved_.resize(program_.pcg.size());
  for (auto& of_node : saved_) {
    of_node.resize(static_cast<std::size_t>(program_.digits.micro_batches()));
  }
}

std::vector<at::Tensor>* Executor::get_saved_values(const Ready& ready) {
  if (!ready.saves_values) return nullptr;
  return &saved_[ready.task->node.index()][static_cast<std::size_t>(micro_batch_)];
}

void Executor::initialise() {
  const auto format = [this](BufferId id) {
    return order_.is_image(id) ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  };
  newest_.resize(program_.buffers.size());
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const auto& buffer = program_.buffers[b];
    if (!holds(BufferId(b))) continue;
    if (buffer.kind == BufferKind::kWeight) {
      value(BufferId(b)) = make_source_values(program_, buffer, device_, training_.seed, 0, place_)
                               .contiguous(format(BufferId(b)));
      if (is_delayed(BufferId(b))) newest_[b] = value(BufferId(b)).clone();
    } else if (buffer.kind == BufferKind::kState) {
      value(BufferId(b)) =
          at::empty(to_aten(buffer.shard), make_options(buffer), format(BufferId(b))).zero_();
    }
  }
  for (const auto& task : program_.tasks) {
    if (task.kind != TaskKind::kUpdate || !has_master_copy(task) || !holds(task.reads[0])) continue;
    const auto master = task.reads.back();
    value(master) =
        make_source_values(program_, program_.buffer(master), device_, training_.seed, 0, place_)
            .contiguous(format(master));
  }
}

}  // namespace tandem::runtime
