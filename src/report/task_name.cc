#include "report/task_name.h"

#include <fmt/format.h>

#include "predict/breakdown.h"

namespace tandem::report {

using lower::TaskKind;

std::string_view get_pass_name(const lower::Task& task) {
  if (task.kind == TaskKind::kUpdate) return "update";
  if (task.recomputed) return "recompute";
  return task.backward ? "backward" : "forward";
}

std::string task_text(const lower::Program& program, const lower::Task& task) {
  const auto& name = program.pcg.node(task.node).name;
  if (task.kind == TaskKind::kUpdate) return fmt::format("the update of %{}", name);
  if (!predict::communicates(task)) {
    return task.recomputed ? fmt::format("the recomputation of %{}", name)
                           : fmt::format("the {} pass of %{}", get_pass_name(task), name);
  }
  const auto moved = task.reads.empty() ? task.writes[0] : task.reads[0];
  const auto& buffer = program.buffer(moved);
  const bool is_gradient = buffer.kind == lower::BufferKind::kGradient;
  return fmt::format("{} of {}%{}", machine::name(task.step.kind),
                     is_gradient ? "the gradient of " : "", program.pcg.node(buffer.node).name);
}

}  // namespace tandem::report
