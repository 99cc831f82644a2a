#include "runtime/executor.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "runtime/aten.h"
#include "runtime/optimizer.h"
#include "runtime/source_values.h"

namespace tandem::runtime {

using lower::Buffer;
using lower::BufferId;
using lower::BufferKind;
using lower::Program;
using lower::Task;
using lower::TaskKind;
using machine::DigitRole;

Executor::Executor(const Program& program, std::int64_t device, Training training)
    : program_(program),
      device_(device),
      training_(training),
      collectives_(program.digits, device),
      values_(program.buffers.size()) {
  for (const auto& buffer : program_.buffers) to_aten(buffer.dtype);  // or a UserError
  for (const auto& task : program_.tasks) {
    if (task.kind == TaskKind::kMove && !is_local(task.step.kind)) {
      collectives_.prepare(task.step.digits);
    }
    if (runs_here(task)) tasks_.push_back(prepare(task));
  }
  find_last_uses();
  initialise();
}

// --- Before the first step ----------------------------------------------------------------------

bool Executor::holds(BufferId id) const {
  return machine::holds(program_.buffer(id).layout, program_.digits, device_);
}

bool Executor::runs_here(const Task& task) const {
  if (task.kind == TaskKind::kMove) return holds(task.reads[0]) || holds(task.writes[0]);
  return !task.writes.empty() && holds(task.writes[0]);
}

Executor::Ready Executor::prepare(const Task& task) const {
  Ready ready{.task = &task};
  if (task.kind != TaskKind::kForward && task.kind != TaskKind::kBackward) return ready;
  const auto& op = program_.pcg.node(task.node).op;
  ready.call.op = op;
  for (auto input : program_.pcg.inputs(task.node)) {
    const auto& buffer = program_.buffer(program_.tensor[input.index()]);
    Shard shard{buffer.sizes, buffer.shard, buffer.shard};
    for (std::size_t d = 0; d < shard.offset.rank(); ++d) {
      shard.offset[d] =
          range_of(buffer.layout, program_.digits, device_, d, buffer.sizes[d]).offset;
    }
    ready.call.operands.push_back(shard);
  }
  ready.kernel = &find_kernel(ready.call);
  if (task.kind == TaskKind::kBackward) {
    const auto result = program_.tensor[task.node.index()];
    if (ready.kernel->uses_result(op) && kept_for_backward(result)) ready.kept_result = result;
    ready.call.row_sparse = std::ranges::any_of(
        task.writes, [&](BufferId id) { return program_.buffer(id).sparse_elements.has_value(); });
  }
  return ready;
}

// Does some operator's backward pass need this tensor, so that it is in memory anyway?
bool Executor::kept_for_backward(BufferId id) const {
  return std::ranges::any_of(program_.tasks, [&](const Task& task) {
    return task.kind == TaskKind::kBackward &&
           std::ranges::find(task.reads, id) != task.reads.end();
  });
}

std::vector<std::string> Executor::slow_operators() const {
  std::set<std::string> names;
  for (const auto& ready : tasks_) {
    if (ready.kernel == &kMeaningKernel) names.insert(ready.call.op.name());
  }
  return {names.begin(), names.end()};
}

void Executor::find_last_uses() {
  std::vector<bool> used_later(program_.buffers.size());
  used_later[program_.loss.index()] = true;
  for (auto& ready : std::views::reverse(tasks_)) {
    const auto visit = [&](BufferId id) {
      if (id == Program::kNone || program_.buffer(id).is_persistent()) return;
      if (!used_later[id.index()]) ready.last_used.push_back(id);
      used_later[id.index()] = true;
    };
    visit(ready.kept_result);
    for (auto id : ready.task->reads) visit(id);
    for (auto id : ready.task->writes) visit(id);
  }
}

void Executor::initialise() {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const auto& buffer = program_.buffers[b];
    if (!holds(BufferId(b))) continue;
    if (buffer.kind == BufferKind::kWeight) {
      values_[b] = source_values(program_, buffer, device_, training_.seed, 0);
    } else if (buffer.kind == BufferKind::kState) {
      values_[b] = at::zeros(to_aten(buffer.shard), to_aten(buffer.dtype));
    }
  }
}

// --- A step -------------------------------------------------------------------------------------

void Executor::feed(std::int64_t step) {
  step_ = step;
  for (auto& ready : tasks_) {
    ready.call.draw = {training_.seed, static_cast<std::uint64_t>(step)};
  }
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const auto& buffer = program_.buffers[b];
    if (buffer.kind != BufferKind::kInput || !holds(BufferId(b))) continue;
    values_[b] =
        source_values(program_, buffer, device_, training_.seed, static_cast<std::uint64_t>(step));
  }
}

void Executor::run() {
  for (const auto& ready : tasks_) {
    run(ready);
    for (auto id : ready.last_used) value(id).reset();
  }
}

void Executor::run(const Ready& ready) {
  const auto& task = *ready.task;
  switch (task.kind) {
    case TaskKind::kForward:
      value(task.writes[0]) = ready.kernel->forward(ready.call, values(task.reads));
      return;
    case TaskKind::kSeed:
      value(task.writes[0]) = seed_value(task.writes[0]);
      return;
    case TaskKind::kBackward:
      backward(ready);
      return;
    case TaskKind::kMove:
      move(ready);
      return;
    case TaskKind::kAccumulate:
      accumulate(task);
      return;
    case TaskKind::kUpdate:
      update(task);
      return;
  }
  CHECK(false);
}

// The layout of the loss's gradient is the dual of the loss's: a replica of the loss is a summand
// of the gradient, and the first summand is everything.
at::Tensor Executor::seed_value(BufferId id) const {
  const auto& buffer = program_.buffer(id);
  const auto summands = buffer.layout.digits(DigitRole::kPartial);
  const bool first = program_.digits.rank_in_group(device_, summands) == 0;
  return at::full(to_aten(buffer.shard), first ? 1 : 0, to_aten(buffer.dtype));
}

void Executor::backward(const Ready& ready) {
  const auto& task = *ready.task;
  const auto operands = values(std::span(task.reads).first(task.reads.size() - 1));
  BackwardInput input{.operands = operands, .result = {}, .gradient = value(task.reads.back())};
  if (ready.kept_result != Program::kNone) input.result = value(ready.kept_result);
  for (auto i : task.operands) input.wanted |= term::InputMask{1} << i;
  const auto gradients = ready.kernel->backward(ready.call, input);
  for (std::size_t w = 0; w < task.writes.size(); ++w) {
    value(task.writes[w]) = gradients[task.operands[w]];
  }
}

void Executor::move(const Ready& ready) {
  const auto& task = *ready.task;
  const auto& to = program_.buffer(task.writes[0]);
  // Handed over where this is the last use, so that a collective may work in place.
  const bool last = std::ranges::find(ready.last_used, task.reads[0]) != ready.last_used.end();
  auto& source = value(task.reads[0]);
  at::Tensor shard = last ? std::move(source) : source;
  value(task.writes[0]) =
      collectives_.move(task.step, std::move(shard), to.shard, to_aten(to.dtype));
}

void Executor::accumulate(const Task& task) {
  auto& sum = value(task.reads[0]);
  const auto& more = value(task.reads[1]);
  // Gradients may share memory with others (add's do).
  const bool own = sum.use_count() == 1 && sum.storage().use_count() == 1;
  if (own) {
    sum.add_(more);
  } else {
    sum = at::add(sum, more);
  }
}

void Executor::update(const Task& task) {
  auto& weight = value(task.reads[0]);
  const auto& gradient = value(task.reads[1]);
  if (program_.optimizer == plan::Optimizer::kSgd) {
    sgd(weight, gradient, training_.rate);
  } else {
    adam(weight, gradient, value(task.reads[2]), value(task.reads[3]), training_.rate, step_ + 1);
  }
}

std::vector<at::Tensor> Executor::values(std::span<const BufferId> ids) const {
  std::vector<at::Tensor> out;
  for (auto id : ids) out.push_back(id == Program::kNone ? at::Tensor() : values_[id.index()]);
  return out;
}

double Executor::loss() const {
  const auto& layout = program_.buffer(program_.loss).layout;
  const auto copies = layout.digits(DigitRole::kReplica) | layout.digits(DigitRole::kIdle);
  if (program_.digits.rank_in_group(device_, copies) != 0) return 0;
  return values_[program_.loss.index()].item<double>();
}

}  // namespace tandem::runtime
