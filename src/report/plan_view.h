// A plan with what lowering and simulating it give: what explanations and comparisons are made of,
// so that their figures are those of `tandem simulate plan.json`.
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
  std::optional<Bytes> may_use = {};  // of a device's memory; default: all less its reserve
  double margin = 0;                  // fraction of it left free: search::memory_limits

  // Of the group of devices with least room left, against what they may use.
  [[nodiscard]] search::Tightest memory() const {
    return search::tightest(simulation, search::memory_limits(machine, may_use, margin));
  }
  [[nodiscard]] std::string margin_text() const { return search::margin_text(may_use, margin); }
};

}  // namespace tandem::report
