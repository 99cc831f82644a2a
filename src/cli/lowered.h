// A plan, read or made from a strategy's name, lowered and simulated.
#pragma once

#include "cli/command.h"
#include "lower/program.h"

namespace tandem::cli {

struct Lowered {
  plan::Plan plan;
  machine::Machine machine;
  lower::Program program;
  sim::Simulation simulation;
};

// The plan in the file job.model_text; --machine may repeat its machine. `others` are flags that
// were given and that a plan has itself: a UserError names the first.
Lowered lower_plan(const Job& job, const std::vector<std::string>& others);

// The fastest that the strategy's name stands for.
Lowered lower_strategy(const Job& job, const std::string& strategy);

// "mlp on local:2 (2 devices), batch 8".
std::string title(const Lowered& lowered);

}  // namespace tandem::cli
