// A lowered and simulated plan. The plan is read from a file or built from a strategy's name.
#pragma once

#include "cli/command.h"
#include "lower/program.h"

namespace tandem::cli {

struct LoweredPlan {
  plan::Plan plan;
  machine::Machine machine;
  lower::Program program;
  predict::Simulation simulation;
  std::optional<Bytes> memory = {};  // per device; default: device memory minus reserve
  double margin = 0;                 // fraction of memory left free

  // Returns the memory of the group of devices with the least room left.
  [[nodiscard]] search::Tightest fullest() const;
  [[nodiscard]] std::string margin_text() const;
};

// Lowers and simulates the plan in the file job.model_text, with the job's --memory and --margin.
// --machine may repeat the plan's machine. `others` are given flags whose values a plan has itself;
// throws UserError for the first.
LoweredPlan lower_plan(const Job& job, const std::vector<std::string>& others);

// Lowers and simulates the fastest setting that the strategy's name stands for.
LoweredPlan lower_strategy(const Job& job, const std::string& strategy);

// Returns "mlp on local:2 (2 devices), batch 8".
std::string make_title(const LoweredPlan& lowered);

}  // namespace tandem::cli
