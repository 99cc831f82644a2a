// The known strategies that a search did not compare with its plan, and why: those that this
// network, batch or machine does not allow.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tandem::cli {

struct Unusable {
  std::string family;   // "fsdp"
  std::string why;      // "the batch of 5 does not divide over 3 devices"
  bool is_told = true;  // to a reader of tables: not where the network lacks what it is for
};

// In the order of strategies::family_names().
std::vector<Unusable> unusable_baselines(const Setup& setup, const search::Result& result);

}  // namespace tandem::cli
