#include "check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "check/compare_step.h"
#include "check/graph_difference.h"
#include "check/operator_plans.h"
#include "check/shrink.h"
#include "lower/lower.h"
#include "plan/micro_batches.h"
#include "plan/parallelization_derivation.h"
#include "rewrite/derivation.h"
#include "rewrite/rule_text.h"
#include "verify/verdict.h"

namespace tandem::check {

namespace {

using machine::Digits;
using Tell = std::function<void(const std::string&)>;

// Limits on the terms that a forward pass evaluates: seconds of work for a plan, and a tenth of a
// second for one operator of many.
constexpr double kMostWork = 1e7;
constexpr double kEnoughWork = 3e5;

// Returns small plans that together show what the large one does. Returns nullopt if they exceed
// `most_work`, or if one cannot be built.
std::optional<std::vector<Small>> make_small_plans(const plan::MappedGraph& mapped,
                                                   const Digits& digits, std::int64_t most_devices,
                                                   double most_work) {
  std::vector<Small> out;
  for (const auto& retained : choose_digits(mapped, digits, most_devices)) {
    auto small = shrink(mapped, retained, true);
    if (!small || estimate_work(*small) > most_work) small = shrink(mapped, retained, false);
    if (!small) return std::nullopt;
    most_work -= estimate_work(*small);
    if (most_work < 0) return std::nullopt;
    out.push_back(std::move(*small));
  }
  return out;
}

// Returns small plans for one operator: on as many devices as take little work, else on as few as
// possible.
std::optional<std::vector<Small>> make_small_operator_plans(const plan::MappedGraph& part,
                                                            const Digits& digits) {
  for (auto devices = kMostDevices; devices >= kFewestDevices; devices /= 2) {
    const double most_work = devices == kFewestDevices ? kMostWork : kEnoughWork;
    if (auto all = make_small_plans(part, digits, devices, most_work)) return all;
  }
  return make_small_plans(part, digits, kMostDevices, kMostWork);
}

std::string make_key(const Small& small) {
  std::string out;
  for (std::size_t i = 0; i < small.digits.count(); ++i) {
    out += fmt::format("{} ", small.digits[i].size);
  }
  return out + to_text_without_names(small.mapped);
}

// Runs the small programs up to the first wrong one. Returns whether all are right.
bool run_small_programs(const std::vector<Small>& all, Report& report) {
  for (const auto& small : all) {
    // Updates are elementwise, and only the update of SGD has a meaning in the field.
    // Software changes how devices compute, not what, so the small programs have the default one.
    const auto step =
        compare_step(lower::lower(small.mapped, small.digits, {}, plan::Optimizer::kSgd));
    ++report.programs;
    report.values += step.tensors;
    report.worst_error = step.worst_error;
    report.devices = std::max(report.devices, small.digits.devices());
    report.micro_batches = std::max(report.micro_batches, small.digits.micro_batches());
    if (step.agrees()) continue;
    report.where = step.where;
    report.message = step.message;
    return false;
  }
  return true;
}

void check_values(const plan::MappedGraph& mapped, const Digits& digits, const Tell& tell,
                  Report& report) {
  tell("comparing small programs with one device");
  if (const auto all = make_small_plans(mapped, digits, kMostDevices, kMostWork)) {
    report.whole = true;
    report.ok = run_small_programs(*all, report);
    return;
  }
  // Operators of different sizes are often equal once they are small.
  std::set<std::string> known;
  const auto parts = split_into_operators(mapped, digits);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto& part = parts[p];
    tell(fmt::format("comparing operators with one device: {} of {}", p, parts.size()));
    auto all = make_small_operator_plans(part.mapped, digits);
    if (!all) {
      report.where = part.node;
      report.message = "is too large to be compared with one device";
      return;
    }
    std::erase_if(*all, [&](const Small& small) { return !known.insert(make_key(small)).second; });
    if (!run_small_programs(*all, report)) return;
  }
  report.ok = true;
}

// Returns the first node whose micro-batches differ between the plan's derivation and its graph.
std::optional<Difference> find_pipeline_difference(const graph::Graph& derived,
                                                   const plan::MappedGraph& mapped) {
  const auto stated = plan::find_micro_batched(derived);
  const auto used = plan::find_micro_batched(mapped);
  const auto text = [](const plan::MicroBatched& all, const std::string& name) {
    const auto at = all.find(name);
    if (at == all.end()) return std::string("passes no pipeline node");
    return fmt::format("is cut into {} micro-batches along dimension {}", at->second.count,
                       at->second.dim);
  };
  for (const auto& all : {used, stated}) {
    for (const auto& [name, cut] : all) {
      const auto plan = text(used, name);
      const auto derivation = text(stated, name);
      if (plan == derivation) continue;
      return Difference{name,
                        fmt::format("{} in the plan and {} in its derivation", plan, derivation)};
    }
  }
  return std::nullopt;
}

// Returns the names of rules that are not proved as given. A rule that would need another condition
// counts as not proved.
std::vector<std::string> find_unproved_rules(const std::vector<rewrite::Rule>& rules,
                                             const Tell& tell) {
  std::vector<std::string> out;
  for (const auto& rule : rules) {
    tell(fmt::format("proving {}", rule.name));
    if (verify::verify(rule).proof.status != rewrite::Status::kProved) out.push_back(rule.name);
  }
  return out;
}

}  // namespace

Report check_plan(const plan::Plan& plan, const Digits& digits, const graph::Graph& model,
                  bool allow_unproved, const Tell& given_tell) {
  const Tell tell = given_tell ? given_tell : [](const std::string& /*line*/) {};
  Report report;
  graph::Graph derived;
  try {
    const auto rules = rewrite::parse_rules(join(plan.rules, "\n"), "rules");
    tell("replaying the derivation");
    auto steps = plan.derivation;
    if (const auto& more = plan.pipeline_steps)
      steps.insert(steps.end(), more->begin(), more->end());
    derived = rewrite::replay(model, steps, rewrite::make_rule_finder(rules));
    report.steps = steps.size();
    report.unproved = find_unproved_rules(rules, tell);
  } catch (const UserError& error) {
    report.where = error.where;
    report.message = error.message;
    return report;
  }
  if (!report.unproved.empty() && !allow_unproved) {
    report.where = report.unproved[0];
    report.message = "the rule is not proved";
    return report;
  }
  auto found = find_difference(erase_parallelism(derived), erase_parallelism(plan.mapped.pcg));
  if (!found && plan.pipeline_steps) found = find_pipeline_difference(derived, plan.mapped);
  if (found) {
    report.where = found->where;
    report.message = found->message;
    return report;
  }
  tell("replaying the steps that make it parallel");
  try {
    // Plan files of older versions have no parallelization steps.
    report.parallel = replay_parallelization(
        plan.mapped.pcg, plan.parallelization ? *plan.parallelization
                                              : plan::find_parallelization(plan.mapped, digits));
  } catch (const UserError& error) {
    report.where = error.where;
    report.message = error.message;
    return report;
  }
  check_values(plan.mapped, digits, tell, report);
  return report;
}

}  // namespace tandem::check
