#include "validate/predict.h"

#include "base/error.h"
#include "lower/lower.h"
#include "models/model.h"
#include "plan/parallelize.h"
#include "sim/simulate.h"
#include "strategies/grid.h"

namespace tandem::validate {

namespace {

struct Lowered {
  std::string strategy;
  lower::Program program;
};

Lowered lower_setting(const graph::Graph& model, const machine::Machine& machine,
                      const strategies::Setting& setting) {
  const auto made = strategies::named_strategies(to_text(setting), model,
                                                 machine::Digits(machine));
  const auto& strategy = made.front();
  const machine::Digits digits(machine, strategy.schedule.micro_batches);
  const auto mapped = plan::parallelize(model, digits, strategy.choices, strategy.schedule);
  return {strategy.name, lower::lower(mapped, digits, plan::Optimizer::kAdam)};
}

Bytes limit_of(const machine::Machine& machine) {
  return machine.device.memory - machine.device.reserve;
}

}  // namespace

std::variant<LoweredJob, Skipped> LoweredJob::make(const Job& job) {
  try {
    const auto model = models::parse_model(job.model).build(job.batch, job.dtype);
    const auto limit = limit_of(job.machine);
    for (const auto& setting : job.settings) {
      auto [strategy, program] = lower_setting(model, job.machine, setting);
      const bool is_last = &setting == &job.settings.back();
      if (is_last || sim::memory_of(program).peak <= limit) {
        return LoweredJob(std::move(strategy), std::move(program));
      }
    }
  } catch (const UserError& error) {
    return Skipped{error.what()};
  }
  return Skipped{"nothing says how it was run"};
}

Prediction LoweredJob::on(const machine::Machine& machine) const {
  const auto simulation = sim::simulate(*program_, machine);
  const auto& memory = simulation.group_memory.front();
  return {.strategy = strategy_,
          .iteration = simulation.iteration,
          .memory = simulation.memory,
          .persistent = simulation.persistent,
          .gradients = memory.part(lower::BufferKind::kGradient),
          .activations = memory.part(lower::BufferKind::kActivation),
          .limit = limit_of(machine)};
}

std::variant<Prediction, Skipped> predict(const Job& job) {
  auto lowered = LoweredJob::make(job);
  if (auto* skipped = std::get_if<Skipped>(&lowered)) return std::move(*skipped);
  return std::get<LoweredJob>(lowered).on(job.machine);
}

}  // namespace tandem::validate
