#include "validate/predict.h"

#include "base/error.h"
#include "estimate/estimate.h"
#include "lower/lower.h"
#include "models/model.h"
#include "plan/parallelize.h"
#include "strategies/grid.h"

namespace tandem::validate {

namespace {

using lower::BufferKind;
using machine::Machine;

Bytes limit_of(const Machine& machine) { return machine.device.memory - machine.device.reserve; }

Prediction prediction_of(std::string strategy, const sim::Memory& memory, Seconds iteration,
                         const Machine& machine) {
  return {.strategy = std::move(strategy),
          .iteration = iteration,
          .memory = memory.peak,
          .persistent = memory.persistent,
          .gradients = memory.part(BufferKind::kGradient),
          .activations = memory.part(BufferKind::kActivation),
          .limit = limit_of(machine)};
}

lower::Program lower_whole(const models::Model& model, const Machine& machine,
                           const strategies::Setting& setting, std::int64_t batch,
                           const estimate::Training& training) {
  const auto graph = model.build(batch, training.dtype);
  auto strategy =
      strategies::named_strategies(to_text(setting), graph, machine::Digits(machine)).front();
  strategy.schedule.precision = training.precision;
  const machine::Digits digits(machine, strategy.schedule.micro_batches);
  return lower::lower(plan::parallelize(graph, digits, strategy.choices, strategy.schedule), digits,
                      training.optimizer);
}

}  // namespace

struct PreparedJob::Parts {
  models::Model model;
  strategies::Setting setting;
  std::int64_t batch;
  estimate::Training training;
  std::optional<lower::Program> program;  // where no estimate is near enough

  [[nodiscard]] Prediction on(const Machine& machine) const {
    if (!program) {
      estimate::Estimator estimator(model, machine, training);
      if (const auto e = estimator.estimate(setting, batch)) {
        return prediction_of(to_text(setting), e->memory, Seconds{e->iteration}, machine);
      }
    }
    const auto whole =
        program ? sim::simulate(*program, machine)
                : sim::simulate(lower_whole(model, machine, setting, batch, training), machine);
    return prediction_of(to_text(setting), whole.group_memory.front(), whole.iteration, machine);
  }
};

std::variant<PreparedJob, Skipped> PreparedJob::make(const Job& job, Estimates estimates) {
  try {
    for (const auto& setting : job.settings) {
      const estimate::Training training{job.dtype, plan::Optimizer::kAdam, job.precision};
      const bool is_last = &setting == &job.settings.back();
      auto parts = std::make_shared<Parts>(
          Parts{models::parse_model(job.model), setting, job.batch, training, {}});
      estimate::Estimator estimator(parts->model, job.machine, training);
      const auto estimate = estimator.estimate(setting, job.batch);
      const bool is_near = estimate && (estimates == Estimates::kRoughToo || !estimate->is_rough);
      if (!is_near) {
        parts->program = lower_whole(parts->model, job.machine, setting, job.batch, training);
      }
      const auto peak =
          parts->program ? sim::memory_of(*parts->program).peak : estimate->memory.peak;
      if (is_last || peak <= limit_of(job.machine)) return PreparedJob(std::move(parts));
    }
  } catch (const UserError& error) {
    return Skipped{error.what()};
  }
  return Skipped{"nothing says how it was run"};
}

Prediction PreparedJob::on(const Machine& machine) const { return parts_->on(machine); }

std::variant<Prediction, Skipped> predict(const Job& job) {
  auto prepared = PreparedJob::make(job, Estimates::kNear);
  if (auto* skipped = std::get_if<Skipped>(&prepared)) return std::move(*skipped);
  return std::get<PreparedJob>(prepared).on(job.machine);
}

}  // namespace tandem::validate
