// What to change of a job that nothing fits: found by searching changed jobs until something does.
#pragma once

#include <string>

#include "cli/command.h"

namespace tandem::cli {

// Did the budget, --max-candidates or Ctrl-C end it before it was known that nothing fits?
bool ended_early(const Setup& setup, const search::Result& result);

struct FittingChange {
  std::string text;  // "a batch of 32 instead of 64, or summit:16"; else of what kind it must be
  Bytes more;        // that a device needs beyond what it may use, for a plan that is found then
};
// `result`: of the search that found nothing. Where it ended early others are not searched for.
FittingChange fitting_change(const Job& job, const Setup& setup, const search::Result& result);

}  // namespace tandem::cli
