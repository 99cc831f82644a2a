#include "cli/read_plan.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "plan/json.h"

namespace tandem::cli {

bool is_plan_file(const std::string& path) {
  return std::filesystem::is_regular_file(path) && plan::is_plan(read_file(path));
}

LoweredPlan read_and_lower(const std::string& path) {
  if (!plan::is_plan(read_file(path))) {
    throw UserError("plan", path, "is not a plan file",
                    "write one with `tandem plan ... -o plan.json`");
  }
  Job job;
  job.model_text = path;
  try {
    return lower_plan(job, {});
  } catch (const UserError& e) {
    // Names the file, as a command may read two plans.
    if (e.where.starts_with(path)) throw;
    throw UserError(e.kind, path + ": " + e.where, e.message, e.hint);
  }
}

report::PlanView make_plan_view(const LoweredPlan& lowered) {
  return {lowered.plan,       lowered.machine, lowered.program,
          lowered.simulation, lowered.memory,  lowered.margin};
}

std::string make_plan_title(const LoweredPlan& lowered) {
  return fmt::format("{}, {}, {}, {}, strategy {}", make_title(lowered),
                     find_task_name(lowered.program), name(lowered.plan.dtype),
                     name(lowered.plan.optimizer), lowered.plan.strategy);
}

}  // namespace tandem::cli
