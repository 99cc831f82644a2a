#include "lower/segments.h"

#include <algorithm>

namespace tandem::lower {

namespace {

Phase get_phase(const Task& task) {
  if (task.kind == TaskKind::kUpdate) return Phase::kUpdate;
  return task.backward ? Phase::kBackward : Phase::kForward;
}

// The position of a task in its segment. Weights shared between stages are sent first, because they
// do not depend on a micro-batch. Their gradients, and tasks that need these, go last, so that
// transfers of a micro-batch do not wait behind them.
enum class SegmentPosition : std::uint8_t { kFirst, kAny, kLast };

std::vector<SegmentPosition> find_segment_positions(const Program& program) {
  std::vector<SegmentPosition> out(program.tasks.size(), SegmentPosition::kAny);
  std::vector<bool> late(program.buffers.size());
  const auto is_late = [&](BufferId b) { return b != Program::kNone && late[b.index()]; };
  for (std::size_t t = 0; t < out.size(); ++t) {
    const auto& task = program.tasks[t];
    const bool passes_on = task.kind == TaskKind::kSend || task.kind == TaskKind::kReceive;
    const bool is_shared = passes_on && comes_from_weight(program.pcg, task.node);
    if (get_phase(task) == Phase::kForward && is_shared) {
      const bool is_there = task.kind == TaskKind::kReceive
                                ? out[task.peer] == SegmentPosition::kFirst
                                : program.buffer(task.reads[0]).is_persistent();
      if (is_there) out[t] = SegmentPosition::kFirst;
    }
    if (get_phase(task) != Phase::kBackward || task.recomputed) continue;
    if (!is_shared && !std::ranges::any_of(task.reads, is_late)) continue;
    out[t] = SegmentPosition::kLast;
    for (auto b : task.writes) late[b.index()] = true;
  }
  return out;
}

}  // namespace

void split_into_segments(Program& program) {
  constexpr std::size_t kParts = 3;
  const auto stages = static_cast<std::size_t>(program.schedule.stages);
  program.segments.reserve(kParts * stages);
  for (std::size_t s = 0; s < stages; ++s) {
    for (auto part : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
      program.segments.push_back({static_cast<std::uint16_t>(s), part, {}});
    }
  }
  const auto ranks = find_segment_positions(program);
  for (const auto rank : {SegmentPosition::kFirst, SegmentPosition::kAny, SegmentPosition::kLast}) {
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      if (ranks[t] != rank) continue;
      const auto& task = program.tasks[t];
      const auto segment =
          std::size_t{task.stage} * kParts + static_cast<std::size_t>(get_phase(task));
      program.segments[segment].tasks.push_back(static_cast<std::uint32_t>(t));
    }
  }
}

}  // namespace tandem::lower
