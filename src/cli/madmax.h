// `tandem simulate --madmax-model A --madmax-system B --madmax-task C`: MAD-Max's public model in
// place of Tandem's own (docs/madmax.md).
#pragma once

#include <string>

#include "cli/command.h"

namespace tandem::cli {

struct MadMaxFiles {
  std::string model;
  std::string system;
  std::string task;

  // All three flags or none; they exclude whatever else says what is simulated.
  void add_flags(CLI::App& command);
  [[nodiscard]] bool given() const { return !model.empty(); }
};

// Prints the result, as text or as one JSON document.
void simulate_madmax(const MadMaxFiles& files, bool json);

}  // namespace tandem::cli
