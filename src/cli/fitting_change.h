// What to change of a job that nothing fits: found by searching changed jobs until something does.
#pragma once

#include <string>

#include "cli/command.h"

namespace tandem::cli {

// "a batch of 32 instead of 64, or summit:16"; else what kind of change there must be. `result`:
// of the search that found nothing.
std::string fitting_change(const Job& job, const Setup& setup, const search::Result& result);

}  // namespace tandem::cli
