// `tandem simulate --madmax-model A --madmax-system B --madmax-task C` predicts a step with
// MAD-Max's public model instead of Tandem's own (docs/internals/madmax.md).
#pragma once

#include <string>

#include "cli/command.h"

namespace tandem::cli {

struct MadMaxFiles {
  std::string model;
  std::string system;
  std::string task;

  // Adds the flags. They are given all together or not at all, and exclude the flags of Tandem's
  // own model.
  void add_flags(CLI::App& command);
  [[nodiscard]] bool is_given() const { return !model.empty(); }
};

// Prints the result as text, or as one JSON document if `json` is set.
void simulate_madmax(const MadMaxFiles& files, bool json);

}  // namespace tandem::cli
