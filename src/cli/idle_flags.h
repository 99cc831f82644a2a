// Warnings about flags that have no effect on the chosen search, so that nobody attributes the
// result to them.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tandem::cli {

// Returns one line for each flag without effect. It names the flag, the chosen search, and the
// searches that use the flag.
std::vector<std::string> find_idle_flags(const Job& job);

}  // namespace tandem::cli
