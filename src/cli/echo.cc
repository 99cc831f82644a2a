// What every command's JSON says of what it ran, and of a step's time.
#include "base/error.h"
#include "cli/command.h"
#include "sim/breakdown.h"

namespace tandem::cli {

Json sequence_of(const models::Model& model) {
  const auto& settings = model.settings;
  if (!settings.has("seq")) return {};
  const bool continues = settings.has("cache") && settings.size("cache", 0) > 0;
  return continues ? 1 : settings.size("seq");
}

Json echo(const plan::Plan& plan) {
  Json out;
  out["model"] = plan.model;
  out["machine"] = plan.machine;
  out["devices"] = machine::load_machine(plan.machine).devices();
  out["batch"] = plan.batch;
  out["seq"] = nullptr;  // of a network that has none
  try {
    const auto model = load_model(plan.model);
    const auto& settings = model.settings;
    out["seq"] = sequence_of(model);
    const auto cache = settings.has("cache") ? settings.size("cache", 0) : 0;
    if (cache > 0) out["cache"] = cache;
  } catch (const UserError&) {
    // A plan may be of a graph that no built-in model makes; it has no sequence length to tell.
  }
  out["dtype"] = name(plan.dtype);
  if (is_half(plan.dtype)) {
    const auto& precision = plan.mapped.schedule.precision;
    out["master"] = precision.master ? "fp32" : "none";
    out["grad_dtype"] = name(precision.gradient(plan.dtype));
  }
  out["optimizer"] = name(plan.optimizer);
  out["strategy"] = plan.strategy;
  out["semantics"] = name(plan.mapped.schedule.semantics);
  return out;
}

Json limit_json(double margin, Bytes limit) {
  return {{"margin", margin}, {"memory_limit_bytes", static_cast<std::int64_t>(limit.value)}};
}

Json simulation_json(const sim::Simulation& s, std::int64_t batch, std::int64_t tokens) {
  Json out;
  out["iteration_s"] = s.iteration.value;
  out["throughput"] = static_cast<double>(batch) / s.iteration.value;
  if (tokens > 0) out["tokens_per_s"] = static_cast<double>(tokens) / s.iteration.value;
  Json serialized;
  for (const auto kind : sim::kReportedKinds) serialized[kind] = 0.0;
  for (const auto& [kind, time] : s.serialized) {
    auto& sum = serialized[sim::reported_kind(kind)];
    sum = sum.get<double>() + time.value;
  }
  out["serialized_s"] = serialized;
  out["compute_s"] = s.compute.value;
  out["exposed_comm_s"] = s.exposed_comm.value;
  out["bubble_s"] = s.bubble.value;
  out["memory_bytes"] = static_cast<std::int64_t>(s.memory.value);
  out["mfu"] = s.mfu;
  return out;
}

}  // namespace tandem::cli
