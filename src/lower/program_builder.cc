#include "lower/program_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "machine/reshard.h"

namespace tandem::lower {

using machine::DigitRole;

ProgramBuilder::ProgramBuilder(const plan::MappedGraph& mapped, Program program)
    : mapped_(mapped),
      pcg_(mapped.pcg),
      program_(std::move(program)),
      signatures_(mapped.pcg.size()) {
  program_.buffers.reserve(4 * pcg_.size());  // an estimate
  program_.tasks.reserve(3 * pcg_.size());
  find_parameters();
}

void ProgramBuilder::find_parameters() {
  is_parameter_.resize(pcg_.size());
  for (auto id : pcg_.ids()) {
    const auto inputs = pcg_.inputs(id);
    is_parameter_[id.index()] =
        is_weight(pcg_.node(id)) || (!inputs.empty() && std::ranges::all_of(inputs, [&](NodeId i) {
          return is_parameter_[i.index()];
        }));
  }
}

const ops::Signature& ProgramBuilder::get_signature(NodeId id) {
  auto& known = signatures_[id.index()];
  if (known == nullptr) known = &get_node_signature(pcg_, id);
  return *known;
}

std::vector<machine::Window> ProgramBuilder::compute_windows(NodeId id, std::size_t operand) {
  return machine::compute_windows(get_signature(id), operand, get_layout(pcg_.inputs(id)[operand]),
                                  program_.digits);
}

BufferId ProgramBuilder::to_windows(BufferId shards, NodeId user, std::size_t operand,
                                    StagePass place) {
  const auto windows = compute_windows(user, operand);
  if (windows.empty()) return shards;
  for (const auto& [from, stage, windowed] : windowed_) {
    if (from == shards && stage == place.stage && program_.buffer(windowed).windows == windows) {
      return windowed;
    }
  }
  const auto made = exchange_halo(shards, windows, machine::Step::kHalo, place);
  windowed_.emplace_back(shards, place.stage, made);
  return made;
}

BufferId ProgramBuilder::to_shards(BufferId gradient, StagePass place) {
  if (program_.buffer(gradient).windows.empty()) return gradient;
  return exchange_halo(gradient, {}, machine::Step::kHaloReduce, place);
}

BufferId ProgramBuilder::exchange_halo(BufferId from, const std::vector<machine::Window>& windows,
                                       machine::Step kind, StagePass place) {
  const auto origin = program_.buffer(from);
  const auto to = add_buffer(
      origin.kind == BufferKind::kGradient ? BufferKind::kGradient : BufferKind::kActivation,
      origin.node, origin.layout);
  program_.buffers[to.index()].each = origin.each;
  set_windows(to, windows);
  const auto halo = machine::compute_halo(windows.empty() ? origin.windows : windows, origin.layout,
                                          origin.sizes, program_.digits);
  if ((halo.digits & program_.digits.time()) != 0) {
    throw UserError("plan", fmt::format("%{}", pcg_.node(origin.node).name),
                    "micro-batches cannot exchange halos");
  }
  const machine::ReshardStep step{
      .kind = kind, .digits = halo.digits, .before = origin.layout, .after = origin.layout};
  add(make_task(TaskKind::kMove, step, origin.node, place, {from}, {to}));
  return to;
}

void ProgramBuilder::set_windows(BufferId id, const std::vector<machine::Window>& windows) {
  auto& buffer = program_.buffers[id.index()];
  buffer.windows = windows;
  if (windows.empty()) return;
  buffer.shard = compute_largest_block(windows, buffer.layout, buffer.sizes, program_.digits);
}

BufferId ProgramBuilder::add_buffer(BufferKind kind, NodeId node, const Layout& layout) {
  const auto& type = pcg_.node(node).type;
  const auto shape = compute_parallel_shape(layout, type.shape.sizes, program_.digits);
  CHECK(shape.has_value(), pcg_.node(node).name, to_text(layout));
  const bool differs = has_time() && layout[0] != DigitRole::kReplica;
  const bool sums_up =
      kind == BufferKind::kGradient && is_parameter_[node.index()] && !is_summand(layout);
  program_.buffers.push_back(
      {.kind = kind,
       .node = node,
       .layout = layout,
       .sizes = type.shape.sizes,
       .shard = shape->shard_shape(),
       .dtype = sums_up ? program_.schedule.precision.gradient(type.dtype) : type.dtype,
       .density = program_.software.stores_zeros ? 1 : type.density,
       .each = has_time() && (differs || each_)});
  return BufferId(program_.buffers.size() - 1);
}

bool ProgramBuilder::is_summand(const Layout& layout) const {
  return has_time() && layout[0] == DigitRole::kPartial;
}

void ProgramBuilder::add(Task task) {
  const auto each = [&](BufferId id) { return program_.buffer(id).each; };
  const bool runs_each =
      task.kind == TaskKind::kAccumulateGradient || std::ranges::any_of(task.writes, each);
  if (has_time() && !runs_each) {
    const bool first = !task.backward || task.kind == TaskKind::kLossGradient;
    task.when = first ? When::kFirst : When::kLast;
  }
  if (task.kind == TaskKind::kReceive) program_.tasks[task.peer].when = task.when;
  program_.tasks.push_back(std::move(task));
}

BufferId ProgramBuilder::accumulate_gradient(BufferId summand, StagePass place) {
  const auto origin = program_.buffer(summand);
  auto layout = origin.layout;
  layout.set(0, DigitRole::kReplica);
  const auto sum = add_buffer(origin.kind, origin.node, layout);
  add(make_task(TaskKind::kAccumulateGradient, {}, origin.node, place, {summand}, {sum}));
  return sum;
}

BufferId ProgramBuilder::move(BufferId from, const Layout& to, NodeId node, StagePass place,
                              std::uint16_t to_stage) {
  const Layout before = program_.buffer(from).layout;
  if (!has_time() || before[0] == to[0]) return reshard_to(from, to, node, place, to_stage);
  auto same_time = to;
  same_time.set(0, before[0]);
  from = reshard_to(from, same_time, node, place, to_stage);
  place.stage = to_stage;
  const bool is_gradient = place.backward && !place.recomputed;
  if (is_gradient && before[0] == DigitRole::kPartial && to[0] == DigitRole::kReplica) {
    return accumulate_gradient(from, place);
  }
  const auto step = reshard(same_time, to);
  if (step.size() != 1 || !is_local(step[0].kind)) {
    throw UserError("plan", fmt::format("%{}", pcg_.node(node).name),
                    fmt::format("requires all micro-batches at once: '{}' becomes '{}'",
                                to_text(before), to_text(to)),
                    "only gradients may combine micro-batches");
  }
  return add_move(from, step[0], node, place);
}

BufferId ProgramBuilder::reshard_to(BufferId from, const Layout& to, NodeId node, StagePass place,
                                    std::uint16_t to_stage) {
  for (const auto& step : reshard(Layout(program_.buffer(from).layout), to)) {
    if (step.kind == machine::Step::kSend) {
      from = add_send(from, step, node, place, to_stage);
      place.stage = to_stage;
    } else {
      from = add_move(from, step, node, place);
    }
  }
  return from;
}

BufferId ProgramBuilder::add_move(BufferId from, const machine::ReshardStep& step, NodeId node,
                                  StagePass place) {
  const auto next = add_moved_buffer(from, step, place);
  add(make_task(TaskKind::kMove, step, node, place, {from}, {next}));
  return next;
}

BufferId ProgramBuilder::add_send(BufferId from, const machine::ReshardStep& step, NodeId node,
                                  StagePass place, std::uint16_t to_stage) {
  const auto next = add_moved_buffer(from, step, place);
  add(make_task(TaskKind::kSend, step, node, place, {from}, {}));
  place.stage = to_stage;
  auto receive = make_task(TaskKind::kReceive, step, node, place, {}, {next});
  receive.peer = program_.tasks.size() - 1;
  add(std::move(receive));
  return next;
}

Task ProgramBuilder::make_task(TaskKind kind, const machine::ReshardStep& step, NodeId node,
                               StagePass place, std::vector<BufferId> reads,
                               std::vector<BufferId> writes) {
  return {.kind = kind,
          .node = node,
          .step = step,
          .backward = place.backward,
          .recomputed = place.recomputed,
          .stage = place.stage,
          .reads = std::move(reads),
          .writes = std::move(writes)};
}

namespace {

// Returns the kind of the buffer that a move writes.
BufferKind get_moved_kind(BufferKind from, StagePass place) {
  if (from == BufferKind::kGradient) return BufferKind::kGradient;
  if (from == BufferKind::kWeight || from == BufferKind::kGathered) return BufferKind::kGathered;
  return place.backward && !place.recomputed ? BufferKind::kGradient : BufferKind::kActivation;
}

}  // namespace

BufferId ProgramBuilder::add_moved_buffer(BufferId from, const machine::ReshardStep& step,
                                          StagePass place) {
  const auto kind = get_moved_kind(program_.buffer(from).kind, place);
  const auto to = add_buffer(kind, NodeId(program_.buffer(from).node), step.after);
  const auto& origin = program_.buffer(from);
  auto& made = program_.buffers[to.index()];
  const bool in_place = kind == BufferKind::kGradient && step.kind != machine::Step::kSend;
  if (in_place && (origin.reserved || origin.shared > Bytes{})) {
    made.shared = made.bytes();
  } else if (origin.kind == BufferKind::kWeight && step.kind == machine::Step::kAllGather &&
             is_gathered_once(place) && !inside_gathered_.contains(from)) {
    inside_gathered_.insert(from);
    made.shared = origin.bytes();
    made.reserved = true;
  }
  return to;
}

bool ProgramBuilder::is_gathered_once(StagePass place) const {
  return program_.mode == Mode::kTraining && !program_.schedule.is_delayed() && !each_ &&
         !place.recomputed && !program_.software.frees_at_last_use;
}

}  // namespace tandem::lower
