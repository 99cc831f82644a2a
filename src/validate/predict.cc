#include "validate/predict.h"

#include "base/error.h"
#include "lower/lower.h"
#include "models/model.h"
#include "plan/parallelize.h"
#include "predict/estimator.h"
#include "strategies/grid.h"

namespace tandem::validate {

namespace {

using lower::BufferKind;
using machine::Machine;

Bytes get_memory_limit(const Machine& machine) {
  return machine.device.memory - machine.device.reserve;
}

Prediction make_prediction(std::string strategy, const predict::Simulation& step,
                           const Machine& machine) {
  const auto& memory = step.group_memory.front();
  return {.strategy = std::move(strategy),
          .iteration = step.iteration,
          .memory = memory.peak,
          .persistent = memory.persistent,
          .gradients = memory.part(BufferKind::kGradient),
          .activations = memory.part(BufferKind::kActivation),
          .limit = get_memory_limit(machine)};
}

lower::Program lower_whole(const models::ConfiguredModel& model, const Machine& machine,
                           const strategies::Setting& setting, std::int64_t batch,
                           const predict::Training& training) {
  const auto graph = model.build(batch, training.dtype);
  auto strategy =
      strategies::make_named_strategies(to_text(setting), graph, machine::Digits(machine)).front();
  strategy.schedule.precision = training.precision;
  const machine::Digits digits(machine, strategy.schedule.micro_batches);
  return lower::lower(plan::parallelize(graph, digits, strategy.choices, strategy.schedule), digits,
                      machine.device.software, training.optimizer);
}

}  // namespace

struct PreparedJob::PreparedData {
  models::ConfiguredModel model;
  strategies::Setting setting;
  std::int64_t batch;
  predict::Training training;
  std::optional<lower::Program> program = {};      // if no estimate is near enough
  std::optional<predict::Estimate> estimate = {};  // otherwise; on the job's machine

  [[nodiscard]] Prediction predict_from(const predict::Estimate& e, const Machine& machine) const {
    return make_prediction(to_text(setting), e.step, machine);
  }
  [[nodiscard]] Prediction predict_from(const lower::Program& whole, const Machine& machine) const {
    return make_prediction(to_text(setting), predict::simulate(whole, machine), machine);
  }
};

std::variant<PreparedJob, Skipped> PreparedJob::prepare(const ValidationJob& job,
                                                        EstimatePolicy estimates) {
  try {
    const predict::Training training{job.dtype, plan::Optimizer::kAdam, job.precision};
    const auto model = models::parse_model(job.model);
    predict::Estimator estimator(model, job.machine, training);
    for (const auto& setting : job.settings) {
      PreparedData parts{model, setting, job.batch, training};
      parts.estimate = estimator.estimate(setting, job.batch);
      if (parts.estimate && parts.estimate->is_rough() && estimates == EstimatePolicy::kNear) {
        parts.estimate.reset();
      }
      if (!parts.estimate) {
        parts.program = lower_whole(model, job.machine, setting, job.batch, training);
      }
      const auto peak = parts.estimate ? parts.estimate->step.memory
                                       : predict::compute_memory(*parts.program).peak;
      const bool is_last = &setting == &job.settings.back();
      if (is_last || peak <= get_memory_limit(job.machine)) {
        return PreparedJob(std::make_shared<const PreparedData>(std::move(parts)));
      }
    }
  } catch (const UserError& error) {
    return Skipped{error.what()};
  }
  return Skipped{"the record gives no settings"};
}

Prediction PreparedJob::predict_on_own_machine(const Machine& machine) const {
  const auto& p = *parts_;
  return p.estimate ? p.predict_from(*p.estimate, machine) : p.predict_from(*p.program, machine);
}

Prediction PreparedJob::predict_on(const Machine& machine) const {
  const auto& p = *parts_;
  if (p.program) return p.predict_from(*p.program, machine);
  if (const auto e =
          predict::Estimator(p.model, machine, p.training).estimate(p.setting, p.batch)) {
    return p.predict_from(*e, machine);
  }
  return p.predict_from(lower_whole(p.model, machine, p.setting, p.batch, p.training), machine);
}

std::variant<Prediction, Skipped> predict(const ValidationJob& job) {
  auto prepared = PreparedJob::prepare(job, EstimatePolicy::kNear);
  if (auto* skipped = std::get_if<Skipped>(&prepared)) return std::move(*skipped);
  return std::get<PreparedJob>(prepared).predict_on_own_machine(job.machine);
}

}  // namespace tandem::validate
