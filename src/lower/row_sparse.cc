#include "lower/row_sparse.h"

#include <algorithm>

namespace tandem::lower {

namespace {

bool is_update(const Task* task) { return task != nullptr && task->kind == TaskKind::kUpdate; }

// Decides which gradients of a program are stored as rows.
class RowSparsePass {
 public:
  explicit RowSparsePass(Program& program)
      : program_(program), reader_(find_only_readers(program)) {}

  // Stores the gradient of a table as rows if that is possible; `task` computes it.
  void mark_if_row_sparse(const Task& task, BufferId gradient) {
    auto& buffer = program_.buffers[gradient.index()];
    const auto elements =
        count_row_sparse_elements(program_.buffer(task.reads[0]).shard, buffer.shard);
    // If the lookups cover the whole table, rows would not be shorter.
    if (elements >= buffer.shard.count()) return;
    const auto* reader = reader_[gradient.index()];
    if (is_update(reader)) {
      buffer.sparse_elements = elements;
    } else if (reader != nullptr && may_send_rows(*reader)) {
      const auto of_all = elements * program_.digits.group_size(reader->step.digits);
      if (2 * of_all > buffer.shard.count()) return;
      buffer.sparse_elements = elements;
      program_.buffers[reader->writes[0].index()].sparse_elements = of_all;
    }
  }

 private:
  // Returns whether the task is only an all-reduce of unsharded gradients, whose result only an
  // update reads.
  [[nodiscard]] bool may_send_rows(const Task& task) const {
    if (!program_.software.sums_rows || task.kind != TaskKind::kMove) return false;
    if (task.reads.size() != 1 || task.step.kind != machine::Step::kAllReduce) return false;
    const auto& from = program_.buffer(task.reads[0]);
    const auto& to = program_.buffer(task.writes[0]);
    const bool wide = to.dtype != program_.pcg.node(to.node).type.dtype;
    return from.shard == from.sizes && !from.reserved && !to.reserved && !wide &&
           is_update(reader_[task.writes[0].index()]);
  }

  Program& program_;
  std::vector<const Task*> reader_;
};

}  // namespace

std::int64_t count_row_sparse_elements(const Shape& indices, const Shape& table) {
  return std::min(indices.count() * table[table.rank() - 1], table.count());
}

void mark_row_sparse_gradients(Program& program) {
  if (program.optimizer != plan::Optimizer::kSgd) return;
  for (auto& buffer : program.buffers) buffer.sparse_elements.reset();
  RowSparsePass rows(program);
  for (const auto& task : program.tasks) {
    if (task.kind != TaskKind::kBackward) continue;
    const auto sparse = program.pcg.node(task.node).op.spec().row_sparse_operand;
    if (!sparse) continue;
    const auto at = std::ranges::find(task.operands, *sparse);
    if (at == task.operands.end()) continue;
    rows.mark_if_row_sparse(task,
                            task.writes[static_cast<std::size_t>(at - task.operands.begin())]);
  }
}

bool sums_rows(const Program& program, const Task& task) {
  return task.kind == TaskKind::kMove && task.step.kind == machine::Step::kAllReduce &&
         program.buffer(task.writes[0]).sparse_elements.has_value();
}

}  // namespace tandem::lower
