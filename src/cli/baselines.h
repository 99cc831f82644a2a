// The known strategies that a search did not compare with its plan, with the reasons. Most are
// strategies that the network, the batch or the machine does not allow.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tandem::cli {

struct Unusable {
  std::string family;    // "fsdp"
  std::string why;       // "the batch of 5 does not divide over 3 devices"
  bool is_shown = true;  // shown in tables; false for families that are for other networks
};

// Returns the families without a baseline in `result`, in the order of strategies::family_names().
std::vector<Unusable> list_unusable_baselines(const Setup& setup, const search::Result& result);

}  // namespace tandem::cli
