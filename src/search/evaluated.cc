#include "search/evaluated.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "search/limits.h"

namespace tandem::search {

double Evaluated::exposed_share() const {
  Seconds communication;
  for (const auto& [kind, time] : simulation.serialized) {
    if (kind != "compute" && kind != "embedding") communication += time;
  }
  return communication > Seconds{} ? simulation.exposed_comm / communication : 0;
}

std::vector<Bytes> compute_memory_limits(const machine::Machine& machine,
                                         std::optional<Bytes> asked, double margin) {
  const auto limit = [&](const machine::Device& device) {
    const auto usable = asked.value_or(device.memory - device.reserve);
    return std::max(usable - margin * asked.value_or(device.memory), Bytes{});
  };
  if (machine.groups.empty()) return {limit(machine.device)};
  std::vector<Bytes> out;
  for (const auto& group : machine.groups) out.push_back(limit(group.device));
  return out;
}

std::string format_margin(std::optional<Bytes> asked, double margin) {
  if (margin <= 0) return "";
  return fmt::format(" ({:.3g} % of {} left free)", 100 * margin,
                     asked ? "--memory" : "the device");
}

Tightest find_tightest(const predict::Simulation& simulation, const std::vector<Bytes>& limits) {
  Tightest out;
  for (std::size_t g = 0; g < limits.size(); ++g) {
    const auto& needs = simulation.group_memory[g];
    if (g > 0 && needs.peak - limits[g] <= out.needs.peak - out.limit) continue;
    out = {g, needs, limits[g]};
  }
  return out;
}

std::string format_shortage(const Tightest& tightest, const machine::Machine& machine,
                            const std::string& margin) {
  const auto whose = machine.groups.empty()
                         ? std::string()
                         : fmt::format(" of group '{}'", machine.groups[tightest.group].name);
  return fmt::format("{} per device{}, limit {}{}", format_bytes(tightest.needs.peak.value), whose,
                     format_bytes(tightest.limit.value), margin);
}

std::int64_t get_max_micro_batches(const graph::Graph& graph) {
  const auto operators = static_cast<std::int64_t>(graph.size());
  return std::max<std::int64_t>(limits::kMostOperatorPasses / operators, 1);
}

void check_simulable(const graph::Graph& graph, const plan::Schedule& schedule,
                     const std::string& strategy) {
  const auto most = get_max_micro_batches(graph);
  if (schedule.micro_batches <= most) return;
  throw UserError("strategy", strategy,
                  fmt::format("{} micro-batches of {} operators are too many to simulate",
                              schedule.micro_batches, graph.size()),
                  fmt::format("use at most {} micro-batches", most));
}

Evaluated cost_choices(const graph::Graph& model, const machine::Machine& machine,
                       const std::string& name, const std::vector<plan::Choice>& choices,
                       const plan::Schedule& schedule, plan::Optimizer optimizer,
                       const std::vector<Bytes>& limits, lower::Mode mode,
                       predict::Classes classes) {
  constexpr Seconds kNever{std::numeric_limits<double>::infinity()};
  return std::move(
      cost_within(kNever, model, machine, name, choices, schedule, optimizer, limits, mode, classes)
          .value());
}

std::optional<Evaluated> cost_within(Seconds limit, const graph::Graph& model,
                                     const machine::Machine& machine, const std::string& name,
                                     const std::vector<plan::Choice>& choices,
                                     const plan::Schedule& schedule, plan::Optimizer optimizer,
                                     const std::vector<Bytes>& limits, lower::Mode mode,
                                     predict::Classes classes, predict::Operations* known,
                                     predict::Extent extent) {
  check_simulable(model, schedule, name);
  const machine::Digits digits(machine, schedule.micro_batches);
  auto mapped = plan::parallelize(model, digits, choices, schedule);
  const auto program =
      lower::lower_unchecked(mapped, digits, machine.device.software, optimizer, mode);
  auto simulation = predict::simulate_within(limit, program, machine, classes, known, extent);
  if (!simulation) return std::nullopt;
  plan::check_mapped(mapped, digits);
  auto out = make_evaluated(name, std::move(*simulation), limits);
  out.mapped = std::move(mapped);
  return out;
}

Evaluated make_evaluated(std::string name, predict::Simulation simulation,
                         const std::vector<Bytes>& limits) {
  const auto most = find_tightest(simulation, limits);
  std::string family = name;
  return {.name = std::move(name),
          .family = std::move(family),
          .simulation = std::move(simulation),
          .over = most.needs.peak - most.limit,
          .feasible = most.fits()};
}

Evaluated summarize(const Evaluated& evaluated) {
  Evaluated out{.name = evaluated.name,
                .family = evaluated.family,
                .setting = evaluated.setting,
                .simulation = evaluated.simulation,
                .over = evaluated.over,
                .feasible = evaluated.feasible,
                .error_bound = evaluated.error_bound,
                .bound = evaluated.bound,
                .devices = evaluated.devices,
                .rewritten = evaluated.rewritten};
  out.simulation.timeline = {};
  return out;
}

bool is_better(const Evaluated& a, const Evaluated& b) {
  if (a.feasible != b.feasible) return a.feasible;
  return a.feasible ? a.simulation.iteration < b.simulation.iteration : a.over < b.over;
}

}  // namespace tandem::search
