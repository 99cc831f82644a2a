#include "check/check.h"

#include <algorithm>

#include "check/erasure.h"
#include "check/parts.h"
#include "check/shrink.h"
#include "check/step.h"
#include "lower/lower.h"
#include "rewrite/derivation.h"
#include "rewrite/rule_text.h"

namespace tandem::check {

namespace {

using machine::Digits;

// Terms in a forward pass: seconds of work.
constexpr double kMostWork = 1e7;

// Small plans that together show what the large one does; nothing if some cannot be made within
// the work that is left.
std::optional<std::vector<Small>> make_small(const plan::MappedGraph& mapped, const Digits& digits,
                                             double most_work) {
  std::vector<Small> out;
  for (const auto& kept : choose_digits(mapped, digits)) {
    auto small = shrink(mapped, kept, true);
    if (!small || work_of(*small) > most_work) small = shrink(mapped, kept, false);
    if (!small) return std::nullopt;
    most_work -= work_of(*small);
    if (most_work < 0) return std::nullopt;
    out.push_back(std::move(*small));
  }
  return out;
}

// Runs them up to the first that is wrong.
bool run_all(const std::vector<Small>& all, Report& report) {
  for (const auto& small : all) {
    // Updates are elementwise, and only those of SGD have a meaning in the field.
    const auto step = compare_step(lower::lower(small.mapped, small.digits, plan::Optimizer::kSgd));
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

void check_values(const plan::MappedGraph& mapped, const Digits& digits, Report& report) {
  if (const auto all = make_small(mapped, digits, kMostWork)) {
    report.whole = true;
    report.ok = run_all(*all, report);
    return;
  }
  for (const auto& part : parts_of(mapped, digits)) {
    const auto all = make_small(part.mapped, digits, kMostWork);
    if (!all) {
      report.where = part.node;
      report.message = "is too large to be compared with one device";
      return;
    }
    if (!run_all(*all, report)) return;
  }
  report.ok = true;
}

// What the plan's derivation makes of its model, by the rules that the plan brings with it.
graph::Graph follow(const plan::Plan& plan, const graph::Graph& model) {
  std::vector<rewrite::Rule> rules;
  for (const auto& text : plan.rules) {
    for (auto& rule : rewrite::parse_rule(text)) rules.push_back(std::move(rule));
  }
  return rewrite::replay(model, plan.derivation, [&](const std::string& name) {
    const auto at = std::ranges::find(rules, name, &rewrite::Rule::name);
    return at == rules.end() ? nullptr : &*at;
  });
}

}  // namespace

Report check_plan(const plan::Plan& plan, const Digits& digits, const graph::Graph& model) {
  Report report;
  graph::Graph derived;
  try {
    derived = follow(plan, model);
  } catch (const UserError& error) {
    report.where = error.where;
    report.message = error.message;
    return report;
  }
  report.steps = plan.derivation.size();
  if (const auto found = difference(derived, erase_parallelism(plan.mapped.pcg))) {
    report.where = found->where;
    report.message = found->message;
    return report;
  }
  check_values(plan.mapped, digits, report);
  return report;
}

}  // namespace tandem::check
