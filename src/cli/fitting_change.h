// What to change of a job that nothing fits: the smallest changes of each kind with which a search
// finds something that fits.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tandem::cli {

// Did the budget, --max-candidates or Ctrl-C end it before it was known that nothing fits?
bool ended_early(const Setup& setup, const search::Result& result);

// "dgx_h100:7 instead of dgx_h100:6" changes the number of nodes by 7/6. `factor` compares changes
// of different kinds: how much more, or how much less, of what is changed.
struct Change {
  std::string text;
  double factor = 1;
};

struct FittingChange {
  std::vector<Change> changes;  // at least one, the smallest first
  std::string note;             // on all of them; empty: none
  Bytes more;  // that a device needs beyond what it may use, for a plan to be found

  // "--margin 0.03 instead of 0.05, or dgx_h100:7 instead of dgx_h100:6"
  [[nodiscard]] std::string text() const;
};
// `result`: of the search that found nothing. Where it ended early nothing else is searched for.
FittingChange fitting_change(const Job& job, const Setup& setup, const search::Result& result);

}  // namespace tandem::cli
