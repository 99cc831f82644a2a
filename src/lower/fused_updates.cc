#include "lower/fused_updates.h"

#include <algorithm>
#include <optional>

namespace tandem::lower {

namespace {

// Returns for each buffer the index of the last task that reads it, other than an update.
std::vector<std::size_t> find_last_reads(const Program& program) {
  std::vector<std::size_t> out(program.buffers.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto& task = program.tasks[t];
    if (task.kind == TaskKind::kUpdate) continue;
    for (auto b : task.reads) {
      if (b != Program::kNone) out[b.index()] = t;
    }
  }
  return out;
}

// Returns whether the update may subtract the gradient directly. The gradient must cover the
// weight's whole shard.
bool can_fuse_update(const Program& program, const Task& update, const Buffer& gradient) {
  const auto& weight = program.buffer(update.reads[0]);
  return may_subtract(program.optimizer, weight.dtype) && gradient.shard == weight.shard &&
         !gradient.reserved && gradient.windows.empty();
}

// Returns the operand whose gradient the software subtracts while it computes it, if any.
std::optional<std::size_t> find_fused_operand(const Program& program, const Task& task) {
  const auto& spec = program.pcg.node(task.node).op.spec();
  if (program.software.updates_in_matmuls && spec.matmul_operand) return spec.matmul_operand;
  return program.software.updates_in_tables ? spec.row_sparse_operand : std::nullopt;
}

}  // namespace

bool may_subtract(plan::Optimizer optimizer, DType weight) {
  return optimizer == plan::Optimizer::kSgd && (weight == DType::kFp32 || weight == DType::kFp64);
}

void fuse_updates(Program& program) {
  const auto& schedule = program.schedule;
  const bool one_pass = schedule.micro_batches == 1 && schedule.stages == 1 && !schedule.ring &&
                        !schedule.is_delayed();
  const bool does_so = program.software.updates_in_matmuls || program.software.updates_in_tables;
  if (!does_so || !one_pass) return;
  const auto readers = find_only_readers(program);
  const auto last = find_last_reads(program);
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto& task = program.tasks[t];
    if (task.kind != TaskKind::kBackward) continue;
    const auto operand = find_fused_operand(program, task);
    if (!operand) continue;
    const auto at = std::ranges::find(task.operands, *operand);
    if (at == task.operands.end()) continue;
    const auto id = task.writes[static_cast<std::size_t>(at - task.operands.begin())];
    const auto* update = readers[id.index()];
    if (update == nullptr || update->kind != TaskKind::kUpdate) continue;
    auto& gradient = program.buffers[id.index()];
    gradient.fused_update =
        can_fuse_update(program, *update, gradient) && last[update->reads[0].index()] <= t;
  }
}

}  // namespace tandem::lower
