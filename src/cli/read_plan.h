// A plan file for commands that only read it.
#pragma once

#include "cli/lowered.h"
#include "report/plan_view.h"

namespace tandem::cli {

// Is there such a file, and is it a plan by what stands in it? Others may be networks.
bool is_plan_file(const std::string& path);

// Read, lowered and simulated. Throws UserError, also where the file is no plan.
Lowered read_and_lower(const std::string& path);

// `lowered` must outlive it.
report::PlanView view_of_plan(const Lowered& lowered);

// "mlp on summit:8 (48 devices), batch 12288, pretrain, fp32, sgd, strategy dp", as `simulate` has
// it.
std::string plan_title(const Lowered& lowered);

}  // namespace tandem::cli
