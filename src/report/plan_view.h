// A plan with what lowering and simulating it give: what explanations and comparisons are made of,
// so that their figures are those of `tandem simulate plan.json`.
#pragma once

#include "lower/program.h"
#include "plan/plan.h"
#include "search/search.h"
#include "sim/simulate.h"

namespace tandem::report {

struct PlanView {
  const plan::Plan& plan;
  const machine::Machine& machine;
  const lower::Program& program;
  const sim::Simulation& simulation;

  // Of the group of devices with least room left, against what they may use.
  [[nodiscard]] search::Tightest memory() const {
    return search::tightest(simulation, search::memory_limits(machine, {}));
  }
};

}  // namespace tandem::report
