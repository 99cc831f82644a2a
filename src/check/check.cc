#include "check/check.h"

#include <algorithm>

#include "check/erasure.h"
#include "check/parts.h"
#include "check/shrink.h"
#include "check/step.h"
#include "lower/lower.h"
#include "rewrite/derivation.h"
#include "rewrite/rule_text.h"
#include "verify/verdict.h"

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

// Those without a proof as they stand: one that needs a condition more has none.
std::vector<std::string> unproved(const std::vector<rewrite::Rule>& rules) {
  std::vector<std::string> out;
  for (const auto& rule : rules) {
    if (verify::verify(rule).proof.status != rewrite::Status::kProved) out.push_back(rule.name);
  }
  return out;
}

}  // namespace

Report check_plan(const plan::Plan& plan, const Digits& digits, const graph::Graph& model,
                  bool allow_unproved) {
  Report report;
  graph::Graph derived;
  try {
    const auto rules = rewrite::parse_rules(join(plan.rules, "\n"), "rules");
    derived = rewrite::replay(model, plan.derivation, rewrite::rules_by_name(rules));
    report.unproved = unproved(rules);
  } catch (const UserError& error) {
    report.where = error.where;
    report.message = error.message;
    return report;
  }
  report.steps = plan.derivation.size();
  if (!report.unproved.empty() && !allow_unproved) {
    report.where = report.unproved[0];
    report.message = "the rule is not proved";
    return report;
  }
  if (const auto found = difference(derived, erase_parallelism(plan.mapped.pcg))) {
    report.where = found->where;
    report.message = found->message;
    return report;
  }
  check_values(plan.mapped, digits, report);
  return report;
}

}  // namespace tandem::check
