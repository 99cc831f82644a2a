// Flags that change nothing in the search that was asked for are told of, so that nobody takes
// what comes of it for what they do.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tandem::cli {

// A line for each: which flag, in which search, and for which searches it is.
std::vector<std::string> idle_flags(const Job& job);

}  // namespace tandem::cli
