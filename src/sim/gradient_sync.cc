#include "sim/gradient_sync.h"

#include <algorithm>

namespace tandem::sim {

namespace {

using lower::Part;
using lower::Program;
using lower::TaskKind;

bool comes_from_weight(const graph::Graph& pcg, graph::NodeId id) {
  while (is_parallel(pcg.node(id))) id = pcg.inputs(id)[0];
  return is_weight(pcg.node(id));
}

}  // namespace

std::vector<bool> gradient_syncs(const Program& program) {
  std::vector<bool> out;
  for (const auto& task : program.tasks) {
    out.push_back(task.kind == TaskKind::kMove && task.backward && !task.remade &&
                  !is_local(task.step.kind) && comes_from_weight(program.pcg, task.node));
  }
  return out;
}

std::vector<std::vector<std::uint32_t>> task_order(const Program& program, bool overlap) {
  std::vector<std::vector<std::uint32_t>> out;
  for (const auto& segment : program.segments) out.push_back(segment.tasks);
  if (overlap) return out;
  const auto syncs = gradient_syncs(program);
  for (std::size_t s = 0; s < out.size(); ++s) {
    if (program.segments[s].part != Part::kBackward) continue;
    std::vector<bool> late(program.buffers.size());
    std::stable_partition(out[s].begin(), out[s].end(), [&](std::uint32_t t) {
      const auto& task = program.tasks[t];
      const bool waits = syncs[t] || std::ranges::any_of(task.reads, [&](lower::BufferId b) {
                           return b != Program::kNone && late[b.index()];
                         });
      if (waits) {
        for (auto b : task.writes) late[b.index()] = true;
      }
      return !waits;
    });
  }
  return out;
}

}  // namespace tandem::sim
