// Test support: plans a small network with a named strategy, and lowers and simulates the plan.
#pragma once

#include <memory>
#include <string>

#include "lower/lower.h"
#include "models/model.h"
#include "report/plan_view.h"
#include "strategies/grid.h"

namespace tandem::report {

// Owns the objects that a PlanView refers to.
struct ExplainedPlan {
  plan::Plan plan;
  machine::Machine machine;
  lower::Program program;
  predict::Simulation simulation;

  [[nodiscard]] PlanView view() const { return {plan, machine, program, simulation}; }
};

inline ExplainedPlan explain_plan(const std::string& model_text, const std::string& machine_text,
                                  std::int64_t batch, const std::string& strategy) {
  const auto machine = machine::load_machine(machine_text);
  const auto model = models::parse_model(model_text).build(batch, DType::kFp32);
  const machine::Digits digits(machine);
  const auto found = strategies::make_named_strategies(strategy, model, digits).front();
  plan::Plan plan;
  plan.model = model_text;
  plan.machine = machine_text;
  plan.strategy = found.name;
  plan.batch = batch;
  plan.optimizer = plan::Optimizer::kAdam;
  const machine::Digits in_time(machine, found.schedule.micro_batches);
  plan.mapped = plan::parallelize(model, in_time, found.choices, found.schedule);
  auto program = lower::lower(plan.mapped, in_time, machine.device.software, plan.optimizer);
  auto simulation = predict::simulate(program, machine);
  return {std::move(plan), machine, std::move(program), std::move(simulation)};
}

}  // namespace tandem::report
