#include "predict/gradient_sync.h"

#include <algorithm>

namespace tandem::predict {

namespace {

using lower::Phase;
using lower::Program;
using lower::TaskKind;

}  // namespace

std::vector<bool> find_gradient_syncs(const Program& program) {
  std::vector<bool> out;
  for (const auto& task : program.tasks) {
    out.push_back(task.kind == TaskKind::kMove && task.backward && !task.recomputed &&
                  !is_local(task.step.kind) && lower::comes_from_weight(program.pcg, task.node));
  }
  return out;
}

std::vector<bool> find_tasks_after_backward(const Program& program) {
  const auto syncs = find_gradient_syncs(program);
  std::vector<bool> late(program.buffers.size());
  std::vector<bool> out(program.tasks.size());
  // If a late task sends to another stage, the receiving task is late, too.
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& segment : program.segments) {
      if (segment.phase != Phase::kBackward) continue;
      for (auto t : segment.tasks) {
        const auto& task = program.tasks[t];
        if (out[t]) continue;
        out[t] = syncs[t] || (task.kind == TaskKind::kReceive && out[task.peer]) ||
                 std::ranges::any_of(task.reads, [&](lower::BufferId b) {
                   return b != Program::kNone && late[b.index()];
                 });
        if (!out[t]) continue;
        changed = true;
        for (auto b : task.writes) late[b.index()] = true;
      }
    }
  }
  return out;
}

std::vector<std::vector<std::uint32_t>> order_tasks(const Program& program, bool overlap) {
  std::vector<std::vector<std::uint32_t>> out;
  for (const auto& segment : program.segments) out.push_back(segment.tasks);
  if (overlap) return out;
  const auto late = find_tasks_after_backward(program);
  for (auto& tasks : out) {
    std::stable_partition(tasks.begin(), tasks.end(), [&](auto t) { return !late[t]; });
  }
  return out;
}

}  // namespace tandem::predict
