// Advice on the settings of a named strategy: changes with which it fits, or with which its step is
// faster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "search/faster_settings.h"

namespace tandem::cli {

struct Advice {
  std::optional<search::Evaluated> fitting;   // changed setting that fits, if `strategy` does not
  std::vector<search::FasterSetting> faster;  // single changes, fastest first
};

// Returns advice on `strategy`, the complete text of a setting; `fits` says whether it fits. The
// advice is empty if nothing helps, if the job is not the training of the whole network, or if
// steps cannot be estimated.
Advice advise(const Job& job, const std::string& strategy, bool fits);

// Returns a headline's line about `advice.fitting`; "" if there is none.
std::string fitting_line(const Advice& advice);
// Returns "Faster settings: sp (12 ms); micro=4 instead of micro=2 (14 ms)." and a blank line; ""
// if there are none.
std::string faster_text(const Advice& advice);
// Adds the key "advice" to `out`, and "fitting" if the strategy does not fit.
void add_advice(Json& out, const Advice& advice, bool fits);

}  // namespace tandem::cli
