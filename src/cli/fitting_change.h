// Finds changes to a job for which no plan fits: the smallest change of each kind with which a
// search finds a plan that fits.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tandem::cli {

// Returns whether the budget, --max-candidates or Ctrl-C ended the search before it was known that
// nothing fits.
bool has_ended_early(const Setup& setup, const search::Result& result);

// A change to a job. `factor`, at least 1, is the ratio by which the changed quantity grows or
// shrinks; it compares changes of different kinds. Example: "dgx_h100:7 instead of dgx_h100:6" has
// the factor 7/6.
struct Change {
  std::string text;
  double factor = 1;
};

struct FittingChange {
  std::vector<Change> changes;  // at least one, smallest first
  std::string note;             // note about all changes; empty: none
  Bytes more;                   // memory that a device needs beyond its limit, so that a plan fits
};
// Returns the changes for `job`. `result` is that of the search that found no plan. If that search
// ended early, no further search is started.
FittingChange find_fitting_change(const Job& job, const Setup& setup, const search::Result& result);

}  // namespace tandem::cli
