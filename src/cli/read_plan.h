// Reads plan files for commands that do not change them.
#pragma once

#include "cli/lowered.h"
#include "report/plan_view.h"

namespace tandem::cli {

// Returns whether `path` is a file that contains a plan. Other files may contain networks.
bool is_plan_file(const std::string& path);

// Reads, lowers and simulates the plan file `path`. Throws UserError, also if the file is not a
// plan.
LoweredPlan read_and_lower(const std::string& path);

// Returns a view of `lowered`, which must outlive it.
report::PlanView make_plan_view(const LoweredPlan& lowered);

// Returns the title that `simulate` prints: "mlp on summit:8 (48 devices), batch 12288, pretrain,
// fp32, sgd, strategy dp".
std::string make_plan_title(const LoweredPlan& lowered);

}  // namespace tandem::cli
