#include "runtime/executor.h"

#include <algorithm>
#include <ctime>
#include <ranges>
#include <set>

#include "lower/order.h"
#include "lower/row_sparse.h"
#include "lower/shard_boxes.h"
#include "runtime/aten.h"
#include "runtime/device.h"
#include "runtime/factor_ranges.h"
#include "runtime/half.h"
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

namespace {

// What other programs take of a core is none of a task's.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void add_to(at::Tensor& sum, const at::Tensor& more) {
  // Gradients may share memory with others (add's do).
  const bool own = sum.use_count() == 1 && sum.storage().use_count() == 1;
  if (own) {
    sum.add_(more);
  } else {
    sum = at::add(sum, more);
  }
}

}  // namespace

Executor::Executor(const Program& program, std::int64_t device, Training training, Place place)
    : program_(program),
      device_(device),
      training_(std::move(training)),
      place_(place.device),
      collectives_(program.digits, device, place.device, std::move(place.network)),
      instances_(program) {
  for (const auto& buffer : program_.buffers) to_aten(buffer.dtype);  // or a UserError
  prepare_communication();
  take_turns();
  find_last_uses();
  find_what_to_keep();
  find_waits();
  initialise();
}

// --- Before the first step ----------------------------------------------------------------------

bool Executor::holds(BufferId id) const {
  return machine::holds(program_.buffer(id).layout, program_.digits, device_);
}

namespace {

bool communicates(TaskKind kind) {
  return kind == TaskKind::kMove || kind == TaskKind::kSend || kind == TaskKind::kReceive;
}

// Sums of gradients, and blocks that go round while there is work on the one before. What else a
// device needs of others it needs at once.
bool starts_only(const Task& task) {
  if (task.kind != TaskKind::kMove) return false;
  if (task.step.kind == machine::Step::kShift) return true;
  return task.backward && !task.remade &&
         (task.step.kind == machine::Step::kAllReduce ||
          task.step.kind == machine::Step::kReduceScatter);
}

// Micro-batches tell apart what the task number `send` sends.
int tag_of(const Program& program, std::size_t send, std::int64_t micro_batch) {
  return static_cast<int>(
      (static_cast<std::int64_t>(send) * program.digits.micro_batches() + micro_batch) % (1 << 20));
}

// A part of what is in `box`.
at::Tensor part_of(at::Tensor t, const term::Box& box, const Shard& part) {
  for (std::size_t d = 0; d < part.local.rank(); ++d) {
    const auto at = static_cast<std::int64_t>(d);
    if (t.size(at) == part.local[d]) continue;
    t = t.narrow(at, part.offset[d] - box.offset[d], part.local[d]);
  }
  return t;
}

}  // namespace

// All devices do this in the same order.
void Executor::prepare_communication() {
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const auto& task : program_.tasks) {
    if (task.kind == TaskKind::kMove && !is_local(task.step.kind)) {
      collectives_.prepare(task.step.digits);
    }
    if (task.kind != TaskKind::kSend) continue;
    collectives_.prepare(task.step.digits, true);
    const auto& digits = program_.digits;
    for (std::int64_t from = 0; from < digits.devices(); ++from) {
      if (!machine::holds(program_.buffer(task.reads[0]).layout, digits, from)) continue;
      const auto target = static_cast<std::size_t>(target_of(task.step, digits));
      pairs.insert({from, digits.group(from, task.step.digits)[target]});
    }
  }
  for (const auto& [from, to] : pairs) {
    if (from == device_ || to == device_) {
      collectives_.expect(from, to, messages_between(from, to));
    }
  }
}

// In the order in which they are sent.
std::vector<Message> Executor::messages_between(std::int64_t from, std::int64_t to) const {
  std::vector<Message> out;
  const auto& schedule = program_.schedule;
  const auto& digits = program_.digits;
  const auto rank = digits.rank_in_group(from, schedule.digits);
  for (const auto& turn : turns_of(schedule, instances_.ranks(), rank, program_.phase)) {
    for (auto t : program_.segment(turn.stage, turn.part).tasks) {
      const auto& task = program_.tasks[t];
      if (task.kind != TaskKind::kSend) continue;
      const auto& buffer = program_.buffer(task.reads[0]);
      if (!machine::holds(buffer.layout, digits, from)) continue;
      const auto target = static_cast<std::size_t>(target_of(task.step, digits));
      if (digits.group(from, task.step.digits)[target] != to) continue;
      if (!runs_in(task, turn.micro_batch, schedule.micro_batches)) continue;
      out.push_back({tag_of(program_, t, turn.micro_batch), buffer.shard, to_aten(buffer.dtype)});
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
      .task = &task, .starts = starts_only(task), .of_rows = lower::sums_rows(program_, task)};
  if (task.kind != TaskKind::kForward && task.kind != TaskKind::kBackward) return ready;
  const auto& op = program_.pcg.node(task.node).op;
  ready.call.op = op;
  place(ready.call, task, 0);
  ready.kernel = &find_kernel(ready.call);
  ready.widens = !takes_half(*ready.kernel);
  if (task.kind == TaskKind::kBackward) {
    ready.reads_result = signature_of(program_.pcg, task.node).gradient_from_result.has_value();
    const auto result = program_.tensor[task.node.index()];
    if (ready.reads_result) {
      ready.kept_result = task.reads[0];
    } else if (ready.kernel->uses_result(op) && kept_for_backward(result)) {
      ready.kept_result = result;
    }
    ready.call.row_sparse = std::ranges::any_of(
        task.writes, [&](BufferId id) { return program_.buffer(id).sparse_elements.has_value(); });
  }
  return ready;
}

// Where the operands and the result of a task lie; of one that works on a block those parts.
void Executor::place(Call& call, const Task& task, std::int64_t micro_batch) const {
  const auto slot = program_.digits.slot(device_, micro_batch);
  const auto shard_of = [&](const Buffer& buffer) {
    const auto box = lower::box_of(buffer, program_.digits, slot);
    return Shard{buffer.sizes, box.size, box.offset, buffer.density, buffer.dtype};
  };
  const auto inputs = program_.pcg.inputs(task.node);
  call.operands.clear();
  for (auto input : inputs) {
    call.operands.push_back(shard_of(program_.buffer(program_.tensor[input.index()])));
  }
  call.result = shard_of(program_.buffer(program_.tensor[task.node.index()]));
  // Of what is read in windows, or written over them, those.
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
  const auto& signature = signature_of(call);
  auto parts = factor_ranges(call, signature);
  const auto f = task.block->factor;
  const auto dim = signature.map.input_dim(task.block->operand, f);
  const auto range = range_of(program_.buffer(task.block->part), program_.digits, slot,
                              static_cast<std::size_t>(dim));
  parts[f].local = range.size;
  parts[f].offset = range.offset;
  const auto narrow = [&](Shard& shard, const term::Dims& dims) {
    const auto box = term::box_of(dims, parts);
    shard.local = box.size;
    shard.offset = box.offset;
  };
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    narrow(call.operands[i], signature.map.inputs[i]);
  }
  narrow(call.result, signature.map.output);
}

void Executor::take_turns() {
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
  for (const auto& turn : turns_of(schedule, instances_.ranks(), rank, program_.phase)) {
    for (auto t : program_.segment(turn.stage, turn.part).tasks) {
      if (!here[t]) continue;
      if (!runs_in(program_.tasks[t], turn.micro_batch, schedule.micro_batches)) continue;
      turns_.push_back({ready[t], turn.micro_batch});
    }
  }
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
  std::vector<bool> used_later(values_.size());
  for (auto& turn : std::views::reverse(turns_)) {
    const auto visit = [&](BufferId id) {
      if (id == Program::kNone || program_.buffer(id).is_persistent()) return;
      const auto instance = instances_.of(id, turn.micro_batch);
      if (!used_later[instance]) turn.last_used.push_back(instance);
      used_later[instance] = true;
    };
    const auto& ready = tasks_[turn.ready];
    visit(ready.kept_result);
    for (auto id : ready.task->reads) visit(id);
    for (auto id : ready.task->writes) visit(id);
  }
}

// What reads or writes a buffer that a collective is yet to write comes after that.
void Executor::find_waits() {
  std::vector<bool> on_its_way(values_.size());
  for (auto& turn : turns_) {
    const auto& ready = tasks_[turn.ready];
    const auto visit = [&](BufferId id, bool starts) {
      if (id == Program::kNone) return;
      const auto instance = instances_.of(id, turn.micro_batch);
      turn.waits = turn.waits || on_its_way[instance];
      on_its_way[instance] = starts;
    };
    for (auto id : ready.task->reads) visit(id, false);
    for (auto id : ready.task->writes) visit(id, ready.starts);
  }
}

// Of a node that runs twice its first run leaves nothing in memory.
void Executor::find_what_to_keep() {
  std::vector<int> backward(program_.pcg.size());
  std::vector<bool> again(program_.pcg.size());
  for (const auto& ready : tasks_) {
    const auto& task = *ready.task;
    if (task.kind == TaskKind::kBackward) ++backward[task.node.index()];
    if (task.kind == TaskKind::kForward && task.remade) again[task.node.index()] = true;
  }
  for (auto& ready : tasks_) {
    const auto& task = *ready.task;
    const bool forward = task.kind == TaskKind::kForward;
    if (!forward && task.kind != TaskKind::kBackward) continue;
    ready.keeps = backward[task.node.index()] == 1 && !task.block &&
                  (!forward || task.remade == again[task.node.index()]);
  }
  kept_.resize(program_.pcg.size());
  for (auto& of_node : kept_) {
    of_node.resize(static_cast<std::size_t>(program_.digits.micro_batches()));
  }
}

std::vector<at::Tensor>* Executor::kept(const Ready& ready) {
  if (!ready.keeps) return nullptr;
  return &kept_[ready.task->node.index()][static_cast<std::size_t>(micro_batch_)];
}

void Executor::initialise() {
  newest_.resize(program_.buffers.size());
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const auto& buffer = program_.buffers[b];
    if (!holds(BufferId(b))) continue;
    if (buffer.kind == BufferKind::kWeight) {
      value(BufferId(b)) = source_values(program_, buffer, device_, training_.seed, 0, place_);
      if (is_delayed(BufferId(b))) newest_[b] = value(BufferId(b)).clone();
    } else if (buffer.kind == BufferKind::kState) {
      value(BufferId(b)) = at::zeros(to_aten(buffer.shard), options(buffer));
    }
  }
  for (const auto& task : program_.tasks) {
    if (task.kind != TaskKind::kUpdate || !has_master_of(task) || !holds(task.reads[0])) continue;
    const auto master = task.reads.back();
    value(master) =
        source_values(program_, program_.buffer(master), device_, training_.seed, 0, place_);
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
    const auto times = buffer.each ? program_.digits.micro_batches() : 1;
    for (micro_batch_ = 0; micro_batch_ < times; ++micro_batch_) {
      const auto slot = program_.digits.slot(device_, micro_batch_);
      value(BufferId(b)) =
          source_values(program_, buffer, slot, training_.seed, static_cast<std::uint64_t>(step),
                        place_, training_.data.get());
    }
  }
}

void Executor::run() {
  losses_.clear();
  exposed_s_ = 0;
  const auto exposed = [this](auto&& work) {
    const double begin = MPI_Wtime();
    work();
    exposed_s_ += MPI_Wtime() - begin;
  };
  for (const auto& turn : turns_) {
    micro_batch_ = turn.micro_batch;
    auto& ready = tasks_[turn.ready];
    if (turn.waits) exposed([&] { finish_started(&turn); });
    if (communicates(ready.task->kind)) {
      exposed([&] { move(ready, turn); });
    } else {
      const double begin = task_s_.empty() ? 0 : processor_seconds();
      run(ready, turn);
      if (!task_s_.empty()) task_s_[turn.ready].push_back(processor_seconds() - begin);
      if (!started_.empty()) exposed([&] { collectives_.advance(); });
    }
    if (std::ranges::find(ready.task->writes, program_.loss) != ready.task->writes.end()) {
      add_loss();
    }
    for (auto instance : turn.last_used) values_[instance].reset();
  }
  exposed([&] {
    finish_started(nullptr);
    collectives_.finish();
  });
  wait_for_device();
}

// What the process has waited for is not what a device has, that only was told what to do.
void Executor::wait_for_device() {
  synchronize(place_);
  if (const auto waited = collectives_.waited()) exposed_s_ = *waited;
  loss_ = 0;
  for (const auto& loss : losses_) loss_ += loss.item<double>();
}

std::vector<double> Executor::task_seconds() const {
  std::vector<double> out(program_.tasks.size());
  for (std::size_t t = 0; t < task_s_.size(); ++t) {
    auto runs = task_s_[t];
    if (runs.empty()) continue;
    const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
    std::nth_element(runs.begin(), middle, runs.end());
    out[static_cast<std::size_t>(tasks_[t].task - program_.tasks.data())] = *middle;
  }
  return out;
}

void Executor::run(Ready& ready, const Turn& turn) {
  const auto& task = *ready.task;
  const bool computes = task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward;
  if (computes && program_.digits.time() != 0) {
    place(ready.call, task, turn.micro_batch);
  }
  if (computes) ready.call.kept = kept(ready);
  switch (task.kind) {
    case TaskKind::kForward:
      forward(ready);
      return;
    case TaskKind::kSeed:
      value(task.writes[0]) = seed_value(task.writes[0]);
      return;
    case TaskKind::kBackward:
      backward(ready);
      return;
    case TaskKind::kMove:
    case TaskKind::kSend:
    case TaskKind::kReceive:
      break;
    case TaskKind::kCollect:
      collect(task);
      return;
    case TaskKind::kJoin:
      value(task.writes[0]) =
          value(*std::ranges::find_if(task.reads, [this](BufferId id) { return holds(id); }));
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
  return at::full(to_aten(buffer.shard), first ? 1 : 0, options(buffer));
}

// What is read is the loss, so that is not rounded.
void Executor::forward(const Ready& ready) {
  const auto id = ready.task->writes[0];
  auto operands = operands_of(ready);
  if (ready.widens) operands = widened(std::move(operands));
  const auto result = ready.kernel->forward(ready.call, operands);
  if (ready.task->block) return add_part(*ready.task, id, ready.call.result, result);
  value(id) = id == program_.loss ? result : stored(result, id);
}

void Executor::backward(const Ready& ready) {
  const auto& task = *ready.task;
  auto operands = operands_of(ready);
  if (ready.reads_result) operands[0].reset();
  at::Tensor result;
  if (ready.kept_result != Program::kNone) result = value(ready.kept_result);
  auto gradient = value(task.reads.back());
  if (task.block) gradient = part_of(gradient, box_of(task.reads.back()), ready.call.result);
  if (ready.widens) {
    operands = widened(std::move(operands));
    result = widened(result);
    gradient = widened(gradient);
  }
  BackwardInput input{.operands = operands, .result = result, .gradient = gradient};
  for (auto i : task.operands) input.wanted |= term::InputMask{1} << i;
  const auto gradients = ready.kernel->backward(ready.call, input);
  if (ready.call.kept != nullptr) ready.call.kept->clear();
  for (std::size_t w = 0; w < task.writes.size(); ++w) {
    const auto i = task.operands[w];
    if (task.block) {
      add_part(task, task.writes[w], ready.call.operands[i], gradients[i]);
    } else {
      value(task.writes[w]) = stored(gradients[i], task.writes[w]);
    }
  }
}

// What a forward or backward task's kernel is given.
std::vector<at::Tensor> Executor::operands_of(const Ready& ready) const {
  const auto& task = *ready.task;
  const bool forward = task.kind == TaskKind::kForward;
  auto out = values(std::span(task.reads).first(task.reads.size() - (forward ? 0 : 1)));
  if (!task.block) return out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].defined()) out[i] = part_of(out[i], box_of(task.reads[i]), ready.call.operands[i]);
  }
  return out;
}

// What is made of a block is a part of a tensor, or a summand of it.
void Executor::add_part(const Task& task, BufferId id, const Shard& part, const at::Tensor& made) {
  const auto box = box_of(id);
  auto& into = value(id);
  if (task.block->first) {
    into = at::zeros(to_aten(box.size), options(program_.buffer(id)));
  }
  part_of(into, box, part).add_(made);
}

term::Box Executor::box_of(BufferId id) const {
  return lower::box_of(program_.buffer(id), program_.digits,
                       program_.digits.slot(device_, micro_batch_));
}

void Executor::move(const Ready& ready, const Turn& turn) {
  const auto& task = *ready.task;
  const auto tag = [&](std::size_t send) { return tag_of(program_, send, turn.micro_batch); };
  if (task.kind == TaskKind::kSend) {
    collectives_.send(task.step, value(task.reads[0]),
                      tag(static_cast<std::size_t>(&task - program_.tasks.data())));
    return;
  }
  if (task.kind == TaskKind::kReceive) {
    const auto& to = program_.buffer(task.writes[0]);
    value(task.writes[0]) =
        collectives_.receive(task.step, to.shard, to_aten(to.dtype), tag(task.peer));
    return;
  }
  Started started{.transfer = task.reads.size() > 1 ? start_bucket(task) : start(ready, turn),
                  .instances = {}};
  for (auto id : task.writes) started.instances.push_back(instances_.of(id, turn.micro_batch));
  const bool scatters = task.step.kind == machine::Step::kReduceScatter;
  const bool in_a_host = started.transfer.memory != nullptr;
  started_.push_back(std::move(started));
  // A gradient that is reduce-scattered is in memory until that ends. Inside a computer nothing is
  // won by letting it go on: the processors move it.
  if (!ready.starts || (scatters && in_a_host)) finish_started(&turn);
}

Transfer Executor::start(const Ready& ready, const Turn& turn) {
  const auto& task = *ready.task;
  if (ready.of_rows) return collectives_.start_rows(task.step, value(task.reads[0]));
  const auto& to = program_.buffer(task.writes[0]);
  // Handed over where this is the last use, so that a collective may work in place.
  const auto read = instances_.of(task.reads[0], turn.micro_batch);
  const bool last = std::ranges::find(turn.last_used, read) != turn.last_used.end();
  at::Tensor shard = last ? std::move(values_[read]) : values_[read];
  if (shard.defined()) shard = stored(shard, task.writes[0]);
  if (is_halo(task.step.kind)) return start_halo(task, std::move(shard));
  // A step over time is the device's own: it is as if it were the turn's member of the group.
  return collectives_.start(task.step, std::move(shard), to.shard, to_aten(to.dtype),
                            turn.micro_batch);
}

Transfer Executor::start_halo(const Task& task, at::Tensor shard) {
  const auto& digits = program_.digits;
  std::vector<Exchanged> group;
  for (auto member : digits.group(digits.slot(device_, micro_batch_), task.step.digits)) {
    group.push_back({lower::box_of(program_.buffer(task.reads[0]), digits, member),
                     lower::box_of(program_.buffer(task.writes[0]), digits, member)});
  }
  return collectives_.start_halo(task.step, std::move(shard), group);
}

Transfer Executor::start_bucket(const Task& task) {
  std::vector<machine::ReshardStep> steps;
  std::vector<Shape> locals;
  for (std::size_t i = 0; i < task.reads.size(); ++i) {
    steps.push_back(step_of(program_, task, i));
    locals.push_back(program_.buffer(task.writes[i]).shard);
  }
  const auto type = to_aten(program_.buffer(task.writes[0]).dtype);
  auto shards = values(task.reads);
  for (auto& shard : shards) shard = rounded(shard, type);
  return collectives_.start_together(steps, shards, locals, type);
}

// Does the turn read or write a result of it?
bool Executor::needs(const Turn& turn, const Started& started) const {
  const auto is_result = [&](BufferId id) {
    return id != Program::kNone &&
           std::ranges::find(started.instances, instances_.of(id, turn.micro_batch)) !=
               started.instances.end();
  };
  const auto& task = *tasks_[turn.ready].task;
  return std::ranges::any_of(task.reads, is_result) || std::ranges::any_of(task.writes, is_result);
}

// Those whose results a turn needs; without one all.
void Executor::finish_started(const Turn* turn) {
  for (auto& started : started_) {
    if (turn != nullptr && !needs(*turn, started)) continue;
    const auto results = collectives_.finish(std::move(started.transfer));
    for (std::size_t i = 0; i < results.size(); ++i) values_[started.instances[i]] = results[i];
    started.instances.clear();
  }
  std::erase_if(started_, [](const Started& s) { return s.instances.empty(); });
}

void Executor::collect(const Task& task) {
  if (micro_batch_ == 0) {
    value(task.writes[0]) = stored(value(task.reads[0]), task.writes[0]);
  } else {
    add_to(value(task.writes[0]), value(task.reads[0]));
  }
}

void Executor::accumulate(const Task& task) { add_to(value(task.reads[0]), value(task.reads[1])); }

// Steps do not flow into each other here: what is delayed is what they compute with. A step has
// W(t-1), and W(t+1) takes its place.
void Executor::update(const Task& task) {
  const auto id = task.reads[0];
  if (!is_delayed(id)) return change(value(id), task);
  auto& newest = newest_[id.index()];
  auto& before = value(id);
  before.copy_(newest);
  change(before, task);
  std::swap(before, newest);
}

// What is updated is the master copy where there is one; else of a weight in 16 bits a copy that
// lasts as long as the update, and of its state.
void Executor::change(at::Tensor& weight, const Task& task) {
  const auto& gradient = value(task.reads[1]);
  auto state = values(std::span(task.reads).subspan(2));
  at::Tensor updated = widened(weight);
  const bool has_master = has_master_of(task);
  if (has_master) updated = state.back();
  auto wide = widened(state);
  switch (program_.optimizer) {
    case plan::Optimizer::kSgd:
      sgd(updated, gradient, training_.rate);
      break;
    case plan::Optimizer::kMomentum:
      momentum(updated, gradient, wide[0], training_.rate);
      break;
    case plan::Optimizer::kAdam:
      adam(updated, gradient, wide[0], wide[1], training_.rate, step_ + 1);
      break;
  }
  for (std::size_t s = 0; s < state.size(); ++s) {
    if (!state[s].is_same(wide[s])) state[s].copy_(wide[s]);
  }
  if (!weight.is_same(updated)) weight.copy_(updated);
}

// Then it is what the task reads last.
bool Executor::has_master_of(const Task& task) const {
  return program_.schedule.precision.has_master(program_.buffer(task.reads[0]).dtype);
}

at::Tensor Executor::stored(const at::Tensor& t, BufferId id) const {
  return rounded(t, to_aten(program_.buffer(id).dtype));
}

std::vector<at::Tensor> Executor::values(std::span<const BufferId> ids) const {
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
