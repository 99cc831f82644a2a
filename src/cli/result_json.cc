// The JSON that all commands share: what they ran, and the predicted time of a step.
#include "base/error.h"
#include "cli/command.h"
#include "predict/breakdown.h"
#include "strategies/families.h"

namespace tandem::cli {

Json get_sequence_length(const models::ConfiguredModel& model) {
  const auto& settings = model.settings;
  if (!settings.has("seq")) return {};
  const bool continues = settings.has("cache") && settings.size("cache", 0) > 0;
  return continues ? 1 : settings.size("seq");
}

std::optional<std::int64_t> count_layers(const models::ConfiguredModel& model,
                                         const graph::Graph& graph) {
  if (model.settings.has("layers")) return model.settings.size("layers");
  return strategies::count_layers(graph);
}

Json get_software(const machine::Machine& machine) {
  return machine.software.empty() ? Json() : Json(machine.software);
}

namespace {

std::optional<std::int64_t> count_plan_layers(const plan::Plan& plan) {
  const auto& pcg = plan.mapped.pcg;
  try {
    return count_layers(load_model(plan.model), pcg);
  } catch (const UserError&) {
    return strategies::count_layers(pcg);  // the model's file does not exist here
  }
}

// Returns the setting of a strategy whose operators all have the setting's degrees; nullopt for
// other strategies.
std::optional<strategies::Setting> parse_uniform_setting(const std::string& strategy) {
  try {
    auto out = strategies::parse_setting(strategy);
    if (get_family(out.family).has_uniform_degrees()) return out;
  } catch (const UserError&) {
    // The plan was searched.
  }
  return std::nullopt;
}

}  // namespace

strategies::Parallelism compute_parallelism(const plan::Plan& plan) {
  const auto machine = machine::load_machine(plan.machine);
  const auto layers = count_plan_layers(plan);
  if (const auto setting = parse_uniform_setting(plan.strategy)) {
    return compute_parallelism(
        *setting, {.devices = machine.devices(), .batch = plan.batch, .layers = layers});
  }
  if (plan.mapped.pcg.size() == 0) return {.layers = layers};
  return strategies::compute_parallelism(plan.mapped, machine, plan.batch, layers);
}

Json to_json(const strategies::Parallelism& p) {
  const auto value = [](const auto& known) { return known ? Json(*known) : Json(); };
  return {{"dp", value(p.dp)},
          {"tp", value(p.tp)},
          {"pp", value(p.pp)},
          {"cp", value(p.cp)},
          {"ep", value(p.ep)},
          {"vpp", value(p.vpp)},
          {"zero", value(p.zero)},
          {"micro_batch_size", value(p.micro_batch_size)},
          {"micro_batches", value(p.micro_batches)},
          {"recompute", p.recompute ? Json(name(*p.recompute)) : Json()},
          {"recompute_layers", value(p.recompute_layers)}};
}

Json describe_plan(const plan::Plan& plan) {
  const auto machine = machine::load_machine(plan.machine);
  Json out;
  out["model"] = plan.model;
  out["machine"] = plan.machine;
  out["devices"] = machine.devices();
  out["software"] = get_software(machine);
  out["batch"] = plan.batch;
  out["seq"] = nullptr;  // for a network without sequences
  try {
    const auto model = load_model(plan.model);
    const auto& settings = model.settings;
    out["seq"] = get_sequence_length(model);
    const auto cache = settings.has("cache") ? settings.size("cache", 0) : 0;
    if (cache > 0) out["cache"] = cache;
  } catch (const UserError&) {
    // The plan's graph may come from no known model. Then its sequence length is unknown.
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

Json describe_costed_plan(const plan::Plan& plan) {
  Json out = describe_plan(plan);
  out["parallelism"] = to_json(compute_parallelism(plan));
  return out;
}

Json limit_json(double margin, Bytes limit) {
  return {{"margin", margin}, {"memory_limit_bytes", static_cast<std::int64_t>(limit.value)}};
}

Json simulation_json(const predict::Simulation& s, const StepLoad& step) {
  const auto& [batch, tokens, devices] = step;
  Json out;
  out["iteration_s"] = s.iteration.value;
  out["throughput"] = static_cast<double>(batch) / s.iteration.value;
  if (tokens > 0) {
    const auto tokens_per_s = static_cast<double>(tokens) / s.iteration.value;
    out["tokens_per_s"] = tokens_per_s;
    out["tokens_per_s_per_device"] = tokens_per_s / static_cast<double>(devices);
  }
  Json serialized;
  for (const auto kind : predict::kReportedKinds) serialized[kind] = 0.0;
  for (const auto& [kind, time] : s.serialized) {
    auto& sum = serialized[predict::to_reported_kind(kind)];
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
