#include "lower/row_sparse.h"

#include <algorithm>

#include "cost/operator_time.h"

namespace tandem::lower {

void keep_row_sparse_gradients(Program& program) {
  if (program.optimizer != plan::Optimizer::kSgd) return;
  std::vector<bool> only_updated(program.buffers.size(), true);
  for (const auto& task : program.tasks) {
    if (task.kind == TaskKind::kUpdate) continue;
    for (auto b : task.reads) {
      if (b != Program::kNone) only_updated[b.index()] = false;
    }
  }
  for (const auto& task : program.tasks) {
    if (task.kind != TaskKind::kBackward) continue;
    const auto sparse = program.pcg.node(task.node).op.spec().row_sparse_operand;
    if (!sparse) continue;
    const auto at = std::ranges::find(task.operands, *sparse);
    if (at == task.operands.end()) continue;
    const auto gradient = task.writes[static_cast<std::size_t>(at - task.operands.begin())];
    if (!only_updated[gradient.index()]) continue;
    auto& buffer = program.buffers[gradient.index()];
    buffer.sparse_elements =
        cost::row_sparse_elements(program.buffer(task.reads[0]).shard, buffer.shard);
  }
}

}  // namespace tandem::lower
