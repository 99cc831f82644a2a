// A plan with its program and simulation. Explanations and comparisons are computed from it, so
// their figures equal those of `tandem simulate plan.json`.
#pragma once

#include <optional>

#include "lower/program.h"
#include "plan/plan.h"
#include "predict/simulate.h"
#include "search/search.h"

namespace tandem::report {

struct PlanView {
  const plan::Plan& plan;
  const machine::Machine& machine;
  const lower::Program& program;
  const predict::Simulation& simulation;
  std::optional<Bytes> may_use = {};  // memory per device; default: all except its reserve
  double margin = 0;                  // fraction of it left free: search::compute_memory_limits

  // Returns the memory and limit of the group of devices with the least memory to spare.
  [[nodiscard]] search::Tightest memory() const {
    return search::find_tightest(simulation,
                                 search::compute_memory_limits(machine, may_use, margin));
  }
  [[nodiscard]] std::string margin_text() const { return search::format_margin(may_use, margin); }
};

}  // namespace tandem::report
