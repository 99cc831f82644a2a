#include "runtime/executor.h"

#include <algorithm>
#include <ctime>

#include "lower/shard_boxes.h"
#include "runtime/aten.h"
#include "runtime/device.h"
#include "runtime/half.h"
#include "runtime/optimizer.h"
#include "runtime/source_values.h"
#include "runtime/threads.h"

namespace tandem::runtime {

using lower::BufferId;
using lower::BufferKind;
using lower::Program;
using lower::Task;
using lower::TaskKind;
using machine::DigitRole;

namespace {

// Returns the CPU time of this process, which excludes what other programs take of the core. With
// several threads it returns wall time, because CPU time would sum over the threads.
double read_task_clock() {
  timespec now{};
  const auto clock = get_thread_count() > 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

bool communicates(TaskKind kind) {
  return kind == TaskKind::kMove || kind == TaskKind::kSend || kind == TaskKind::kReceive;
}

// Returns the part `part` of `t`, where `t` has the elements of `box`.
at::Tensor narrow_to_part(at::Tensor t, const term::Box& box, const Shard& part) {
  for (std::size_t d = 0; d < part.local.rank(); ++d) {
    const auto at = static_cast<std::int64_t>(d);
    if (t.size(at) == part.local[d]) continue;
    t = t.narrow(at, part.offset[d] - box.offset[d], part.local[d]);
  }
  return t;
}

void add_to(at::Tensor& sum, const at::Tensor& more) {
  // Gradients may share memory with others (those of `add` do).
  const bool own = sum.use_count() == 1 && sum.storage().use_count() == 1;
  if (own) {
    sum.add_(more);
  } else {
    sum = at::add(sum, more);
  }
}

}  // namespace

void Executor::feed(std::int64_t step) {
  step_ = step;
  for (auto& ready : tasks_) {
    ready.call.draw = {training_.seed, static_cast<std::uint64_t>(step)};
  }
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const auto& buffer = program_.buffers[b];
    if (buffer.kind != BufferKind::kInput || !holds(BufferId(b))) continue;
    const auto times = buffer.each ? program_.digits.micro_batches() : 1;
    for (micro_batch_ = 0; micro_batch_ < times; ++micro_batch_) {
      const auto slot = program_.digits.slot(device_, micro_batch_);
      value(BufferId(b)) =
          make_source_values(program_, buffer, slot, training_.seed,
                             static_cast<std::uint64_t>(step), place_, training_.data.get());
    }
  }
  if (training_.data) training_.data->read_ahead(step + 1);
}

void Executor::run() {
  losses_.clear();
  exposed_s_ = 0;
  overlap_ = {};
  backward_tasks_ = 0;
  began_ = MPI_Wtime();
  const auto exposed = [this](auto&& work) {
    const double begin = MPI_Wtime();
    work();
    exposed_s_ += MPI_Wtime() - begin;
  };
  for (const auto& scheduled : scheduled_tasks_) {
    micro_batch_ = scheduled.micro_batch;
    auto& ready = tasks_[scheduled.ready];
    if (scheduled.waits) exposed([&] { finish_started(&scheduled); });
    if (communicates(ready.task->kind)) {
      exposed([&] { move(ready, scheduled); });
    } else {
      const double begin = task_s_.empty() ? 0 : read_task_clock();
      run_task(ready, scheduled);
      if (!task_s_.empty()) task_s_[scheduled.ready].push_back(read_task_clock() - begin);
      if (!started_.empty()) exposed([&] { collectives_.advance(); });
    }
    if (std::ranges::find(ready.task->writes, program_.loss) != ready.task->writes.end()) {
      add_loss();
    }
    for (auto instance : scheduled.last_used) values_[instance].reset();
  }
  exposed([&] {
    finish_started(nullptr);
    collectives_.finish();
  });
  wait_for_device();
}

// Waits for the device, and reads the losses. The process only queues work on a device, so the
// exposed time is the waiting of the device, not of the process.
void Executor::wait_for_device() {
  synchronize(place_);
  if (const auto waited = collectives_.waited()) exposed_s_ = *waited;
  loss_ = 0;
  for (const auto& loss : losses_) loss_ += loss.item<double>();
}

std::vector<double> Executor::compute_task_seconds() const {
  std::vector<double> out(program_.tasks.size());
  for (std::size_t t = 0; t < task_s_.size(); ++t) {
    auto runs = task_s_[t];
    if (runs.empty()) continue;
    const auto quarter = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 4);
    std::nth_element(runs.begin(), quarter, runs.end());
    out[static_cast<std::size_t>(tasks_[t].task - program_.tasks.data())] = *quarter;
  }
  return out;
}

void Executor::run_task(Ready& ready, const ScheduledTask& scheduled) {
  const auto& task = *ready.task;
  const bool computes = task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward;
  if (computes && program_.digits.time() != 0) {
    set_shards(ready.call, task, scheduled.micro_batch);
  }
  if (computes) ready.call.saved = get_saved_values(ready);
  switch (task.kind) {
    case TaskKind::kForward:
      run_forward(ready);
      return;
    case TaskKind::kLossGradient:
      value(task.writes[0]) = make_loss_gradient(task.writes[0]);
      return;
    case TaskKind::kBackward:
      ++backward_tasks_;
      run_backward(ready);
      overlap_.backward_end_s = MPI_Wtime() - began_;
      return;
    case TaskKind::kMove:
    case TaskKind::kSend:
    case TaskKind::kReceive:
      break;
    case TaskKind::kAccumulateGradient:
      accumulate_gradient(task);
      return;
    case TaskKind::kJoin:
      value(task.writes[0]) =
          value(*std::ranges::find_if(task.reads, [this](BufferId id) { return holds(id); }));
      return;
    case TaskKind::kAddGradients:
      add_gradients(task);
      return;
    case TaskKind::kUpdate:
      update(task);
      return;
  }
  CHECK(false);
}

// Returns the loss gradient. Its layout is the dual of the loss's: a replica of the loss is a
// summand of the gradient. The first summand is 1, and the others are 0.
at::Tensor Executor::make_loss_gradient(BufferId id) const {
  const auto& buffer = program_.buffer(id);
  const auto summands = buffer.layout.digits(DigitRole::kPartial);
  const bool first = program_.digits.rank_in_group(device_, summands) == 0;
  return at::full(to_aten(buffer.shard), first ? 1 : 0, make_options(buffer));
}

// The loss is reported, so it is not rounded.
void Executor::run_forward(const Ready& ready) {
  const auto id = ready.task->writes[0];
  auto operands = get_operands(ready);
  if (ready.widens) operands = widen(std::move(operands));
  const auto result = ready.kernel->forward(ready.call, operands);
  if (ready.task->block) return add_part(*ready.task, id, ready.call.result, result);
  value(id) = id == program_.loss ? result : to_stored_type(result, id);
}

void Executor::run_backward(const Ready& ready) {
  const auto& task = *ready.task;
  auto operands = get_operands(ready);
  if (ready.reads_result) operands[0].reset();
  at::Tensor result;
  if (ready.saved_result != Program::kNone) result = value(ready.saved_result);
  auto gradient = value(task.reads.back());
  if (task.block)
    gradient = narrow_to_part(gradient, compute_local_box(task.reads.back()), ready.call.result);
  if (ready.widens) {
    operands = widen(std::move(operands));
    result = widen(result);
    gradient = widen(gradient);
  }
  BackwardInput input{
      .operands = operands, .result = result, .gradient = gradient, .wide = ready.wide};
  for (auto i : task.operands) input.wanted |= term::InputMask{1} << i;
  if (ready.updates != Program::kNone) {
    input.weight = value(ready.updates);
    input.rate = training_.rate;
  }
  const auto gradients = ready.kernel->backward(ready.call, input);
  if (ready.call.saved != nullptr) ready.call.saved->clear();
  for (std::size_t w = 0; w < task.writes.size(); ++w) {
    const auto i = task.operands[w];
    if (task.block) {
      add_part(task, task.writes[w], ready.call.operands[i], gradients[i]);
    } else if (gradients[i].defined()) {  // Undefined: in the weight already
      value(task.writes[w]) = to_stored_type(gradients[i], task.writes[w]);
    }
  }
}

// Returns the operands for the kernel of a forward or backward task.
std::vector<at::Tensor> Executor::get_operands(const Ready& ready) const {
  const auto& task = *ready.task;
  const bool forward = task.kind == TaskKind::kForward;
  auto out = get_values(std::span(task.reads).first(task.reads.size() - (forward ? 0 : 1)));
  if (!task.block) return out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].defined())
      out[i] = narrow_to_part(out[i], compute_local_box(task.reads[i]), ready.call.operands[i]);
  }
  return out;
}

// Adds `made`, the result for one block, to the part `part` of the buffer. The first block sets the
// buffer to zeros.
void Executor::add_part(const Task& task, BufferId id, const Shard& part, const at::Tensor& made) {
  const auto box = compute_local_box(id);
  auto& into = value(id);
  if (task.block->first) {
    into = at::zeros(to_aten(box.size), make_options(program_.buffer(id)));
  }
  narrow_to_part(into, box, part).add_(made);
}

term::Box Executor::compute_local_box(BufferId id) const {
  return lower::compute_box(program_.buffer(id), program_.digits,
                            program_.digits.slot(device_, micro_batch_));
}

namespace {

// Returns the transfer with its images permuted back from their order in memory.
Transfer as_images(Transfer transfer, std::vector<bool> images) {
  transfer.result = [images = std::move(images), result = std::move(transfer.result)] {
    auto out = result();
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (images[i] && out[i].defined()) out[i] = to_channels_second(out[i]);
    }
    return out;
  };
  return transfer;
}

}  // namespace

void Executor::move(const Ready& ready, const ScheduledTask& scheduled) {
  const auto& task = *ready.task;
  if (task.kind == TaskKind::kSend || task.kind == TaskKind::kReceive) return send(task);
  Started started{.transfer = task.reads.size() > 1 ? start_bucket(task) : start(ready, scheduled),
                  .instances = {}};
  for (auto id : task.writes)
    started.instances.push_back(instances_.get_index(id, scheduled.micro_batch));
  const bool scatters = task.step.kind == machine::Step::kReduceScatter;
  const bool in_a_host = started.transfer.memory != nullptr;
  if (task.backward && !task.recomputed && !is_local(task.step.kind)) {
    started.since = backward_tasks_;
    if (overlap_.started++ == 0) overlap_.first_start_s = MPI_Wtime() - began_;
  }
  started_.push_back(std::move(started));
  // A reduce-scatter keeps the whole gradient in memory until it ends. Inside a computer there is
  // nothing to gain from overlap, because the cores that compute also move the data.
  if (!ready.starts || (scatters && in_a_host)) finish_started(&scheduled);
}

// Executes one end of a send step.
void Executor::send(const Task& task) {
  const auto tag = [&](std::size_t send) { return compute_tag(send, micro_batch_); };
  if (task.kind == TaskKind::kSend) {
    const auto& shard = value(task.reads[0]);
    collectives_.send(task.step, order_.is_image(task.reads[0]) ? to_channels_last(shard) : shard,
                      tag(static_cast<std::size_t>(&task - program_.tasks.data())));
    return;
  }
  const auto& to = program_.buffer(task.writes[0]);
  const bool image = order_.is_image(task.writes[0]);
  const auto shard = collectives_.receive(task.step, image ? to_channels_last(to.shard) : to.shard,
                                          to_aten(to.dtype), tag(task.peer));
  value(task.writes[0]) = image ? to_channels_second(shard) : shard;
}

Transfer Executor::start(const Ready& ready, const ScheduledTask& scheduled) {
  const auto& task = *ready.task;
  if (ready.of_rows) return collectives_.start_rows(task.step, value(task.reads[0]));
  const auto& to = program_.buffer(task.writes[0]);
  // Hands over the shard if this is its last use, so that a collective may work in place.
  const auto read = instances_.get_index(task.reads[0], scheduled.micro_batch);
  const bool last = std::ranges::find(scheduled.last_used, read) != scheduled.last_used.end();
  at::Tensor shard = last ? std::move(values_[read]) : values_[read];
  if (shard.defined()) shard = to_stored_type(shard, task.writes[0]);
  const bool image = order_.is_image(task.reads[0]);
  if (image && shard.defined()) shard = to_channels_last(shard);
  if (is_halo(task.step.kind)) return start_halo(task, std::move(shard));
  // A step over time stays on the device, which acts as the group's member for the slot's
  // micro-batch.
  if (!image) {
    return collectives_.start(task.step, std::move(shard), to.shard, to_aten(to.dtype),
                              scheduled.micro_batch);
  }
  return as_images(
      collectives_.start(to_channels_last(task.step), std::move(shard), to_channels_last(to.shard),
                         to_aten(to.dtype), scheduled.micro_batch),
      {true});
}

// The dimensions of `shard` are in memory order.
Transfer Executor::start_halo(const Task& task, at::Tensor shard) {
  const auto& digits = program_.digits;
  const bool image = order_.is_image(task.reads[0]);
  const auto box = [&](BufferId id, std::int64_t member) {
    const auto out = lower::compute_box(program_.buffer(id), digits, member);
    return image ? term::Box{to_channels_last(out.offset), to_channels_last(out.size)} : out;
  };
  std::vector<Exchanged> group;
  for (auto member : digits.group(digits.slot(device_, micro_batch_), task.step.digits)) {
    group.push_back({box(task.reads[0], member), box(task.writes[0], member)});
  }
  return as_images(collectives_.start_halo(task.step, std::move(shard), group), {image});
}

Transfer Executor::start_bucket(const Task& task) {
  std::vector<machine::ReshardStep> steps;
  std::vector<Shape> locals;
  std::vector<bool> images;
  const auto type = to_aten(program_.buffer(task.writes[0]).dtype);
  auto shards = get_values(task.reads);
  for (std::size_t i = 0; i < task.reads.size(); ++i) {
    steps.push_back(compute_reshard_step(program_, task, i));
    locals.push_back(program_.buffer(task.writes[i]).shard);
    images.push_back(order_.is_image(task.reads[i]));
    shards[i] = convert_to_type(shards[i], type);
    if (!images[i] || !shards[i].defined()) continue;
    steps[i] = to_channels_last(steps[i]);
    locals[i] = to_channels_last(locals[i]);
    shards[i] = to_channels_last(shards[i]);
  }
  return as_images(collectives_.start_together(steps, shards, locals, type), std::move(images));
}

// Returns whether the slot reads or writes a result of the collective.
bool Executor::needs(const ScheduledTask& scheduled, const Started& started) const {
  const auto is_result = [&](BufferId id) {
    return id != Program::kNone &&
           std::ranges::find(started.instances, instances_.get_index(id, scheduled.micro_batch)) !=
               started.instances.end();
  };
  const auto& task = *tasks_[scheduled.ready].task;
  return std::ranges::any_of(task.reads, is_result) || std::ranges::any_of(task.writes, is_result);
}

// Finishes the collectives whose results the slot needs, or all if `scheduled` is null.
void Executor::finish_started(const ScheduledTask* scheduled) {
  for (auto& started : started_) {
    if (scheduled != nullptr && !needs(*scheduled, started)) continue;
    if (started.since >= 0 && backward_tasks_ > started.since) ++overlap_.overlapped_with_backward;
    const auto results = collectives_.finish(std::move(started.transfer));
    for (std::size_t i = 0; i < results.size(); ++i) values_[started.instances[i]] = results[i];
    started.instances.clear();
  }
  std::erase_if(started_, [](const Started& s) { return s.instances.empty(); });
}

void Executor::accumulate_gradient(const Task& task) {
  if (micro_batch_ == 0) {
    value(task.writes[0]) = to_stored_type(value(task.reads[0]), task.writes[0]);
  } else {
    add_to(value(task.writes[0]), value(task.reads[0]));
  }
}

void Executor::add_gradients(const Task& task) {
  add_to(value(task.reads[0]), value(task.reads[1]));
}

// Steps do not overlap here; updates are delayed by the version with which a step computes. Step t
// computes with W(t-1), and W(t+1) replaces it.
void Executor::update(const Task& task) {
  const auto id = task.reads[0];
  if (program_.buffer(task.reads[1]).fused_update) return;
  if (!is_delayed(id)) return apply_optimizer(value(id), task);
  auto& newest = newest_[id.index()];
  auto& before = value(id);
  before.copy_(newest);
  apply_optimizer(before, task);
  std::swap(before, newest);
}

// Updates the master copy if there is one, and rounds it into the weight. Otherwise it updates fp32
// copies of a bf16 weight and its state, which last as long as the update.
void Executor::apply_optimizer(at::Tensor weight, const Task& task) {
  auto gradient = value(task.reads[1]);
  auto state = get_values(std::span(task.reads).subspan(2));
  if (order_.is_image(task.reads[0])) {
    weight = to_channels_last(weight);
    gradient = to_channels_last(gradient);
    for (auto& s : state) s = to_channels_last(s);
  }
  // A GPU computes a single operation on bf16 numbers as if they were widened.
  const bool as_it_is = weight.is_cuda() && program_.optimizer == plan::Optimizer::kSgd;
  at::Tensor updated = as_it_is ? weight : widen(weight);
  const bool has_master = has_master_copy(task);
  if (has_master) updated = state.back();
  auto wide = widen(state);
  switch (program_.optimizer) {
    case plan::Optimizer::kSgd:
      apply_sgd(updated, gradient, training_.rate);
      break;
    case plan::Optimizer::kMomentum:
      apply_momentum(updated, gradient, wide[0], training_.rate);
      break;
    case plan::Optimizer::kAdam:
      apply_adam(updated, gradient, wide[0], wide[1], training_.rate, step_ + 1);
      break;
  }
  for (std::size_t s = 0; s < state.size(); ++s) {
    if (!state[s].is_same(wide[s])) state[s].copy_(wide[s]);
  }
  if (!weight.is_same(updated)) weight.copy_(updated);
}

// Returns whether the weight has a master copy, which is then the last buffer that the task reads.
bool Executor::has_master_copy(const Task& task) const {
  return program_.schedule.precision.has_master(program_.buffer(task.reads[0]).dtype);
}

at::Tensor Executor::to_stored_type(const at::Tensor& t, BufferId id) const {
  return convert_to_type(t, to_aten(program_.buffer(id).dtype));
}

std::vector<at::Tensor> Executor::get_values(std::span<const BufferId> ids) const {
  std::vector<at::Tensor> out;
  for (auto id : ids) out.push_back(id == Program::kNone ? at::Tensor() : value(id));
  return out;
}

void Executor::add_loss() {
  const auto copies = program_.buffer(program_.loss).layout.digits(DigitRole::kReplica);
  const auto slot = program_.digits.slot(device_, micro_batch_);
  if (program_.digits.rank_in_group(slot, copies) == 0) {
    losses_.push_back(value(program_.loss));
  }
}

}  // namespace tandem::runtime
