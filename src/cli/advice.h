// What to change of a named strategy's settings: so that it fits, or so that its step is faster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "search/faster_settings.h"

namespace tandem::cli {

struct Advice {
  std::optional<search::Evaluated> fitting;   // where the strategy does not fit, and something does
  std::vector<search::FasterSetting> faster;  // single changes, the fastest first
};

// `strategy`: as simulated, with all its settings. Empty where nothing helps, where the network is
// not trained as it is, or where steps cannot be estimated.
Advice advise(const Job& job, const std::string& strategy, bool fits);

// A line of a headline; empty for nothing.
std::string fitting_line(const Advice& advice);
// "To go faster: sp (12 ms); micro=4 instead of micro=2 (14 ms)." and a blank line; empty for
// nothing.
std::string faster_text(const Advice& advice);
// "advice", and "fitting" where the strategy does not fit.
void add_advice(Json& out, const Advice& advice, bool fits);

}  // namespace tandem::cli
