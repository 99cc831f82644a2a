// A plan, read or made from a strategy's name, lowered and simulated.
#pragma once

#include "cli/command.h"
#include "lower/program.h"

namespace tandem::cli {

struct Lowered {
  plan::Plan plan;
  machine::Machine machine;
  lower::Program program;
  predict::Simulation simulation;
  std::optional<Bytes> memory = {};  // that a device may use; default: its own, less its reserve
  double margin = 0;                 // fraction of it left free

  // Of the group of devices with the least room.
  [[nodiscard]] search::Tightest fullest() const;
  [[nodiscard]] std::string margin_text() const;
};

// The plan in the file job.model_text, under the job's --memory and --margin; --machine may repeat
// its machine. `others` are flags that
// were given and that a plan has itself: a UserError names the first.
Lowered lower_plan(const Job& job, const std::vector<std::string>& others);

// The fastest that the strategy's name stands for.
Lowered lower_strategy(const Job& job, const std::string& strategy);

// "mlp on local:2 (2 devices), batch 8".
std::string title(const Lowered& lowered);

}  // namespace tandem::cli
