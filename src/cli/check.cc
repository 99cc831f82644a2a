// tandem check: verifies that a plan computes what its model computes.
#include "check/check.h"

#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "base/stop.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "plan/json.h"

namespace tandem::cli {

namespace {

struct CheckFlags {
  bool json = false;
  std::string path;
  bool allow_unproved = false;
};

check::Report make_wrong_report(const std::string& where, const std::string& message) {
  check::Report out;
  out.where = where;
  out.message = message;
  return out;
}

// Checks the text of a plan file and returns the report. A wrong plan is a result. A file that is
// not a plan, or whose machine does not exist, is an error: throws UserError.
check::Report check_text(const std::string& text, const CheckFlags& flags,
                         const plan::Plan& origin) {
  const auto machine = machine::load_machine(origin.machine);
  plan::Plan plan;
  try {
    plan = plan::parse_plan(text, flags.path);
  } catch (const UserError& error) {
    return make_wrong_report(error.where, error.message);
  }
  graph::Graph model;
  try {
    model = load_model(plan.model).build(plan.batch, plan.dtype);
    check_is_model(model, plan.model);
  } catch (const UserError& error) {
    return make_wrong_report(plan.model,
                             fmt::format("the model cannot be built: {}", error.what()));
  }
  const Interrupt interrupt;
  BusyProgress progress("checking", Interrupt::is_requested);
  try {
    return check::check_plan(plan, make_digits(plan, machine), model, flags.allow_unproved,
                             [&](const std::string& line) { progress.update(line); });
  } catch (const Stopped&) {
    fail_interrupted("check");
  }
}

std::string describe_comparison(const check::Report& report) {
  return report.whole ? "whole program" : "operator by operator";
}

// Returns the plan to report: with its schedule, which decides its precision and semantics, if the
// whole text is a plan, else its origin alone.
plan::Plan parse_reported_plan(const std::string& text, const std::string& path,
                               const plan::Plan& origin) {
  try {
    return plan::parse_plan(text, path);
  } catch (const UserError&) {
    return origin;
  }
}

Json report_json(const check::Report& report, const plan::Plan& plan) {
  Json out = describe_plan(plan);
  out["ok"] = report.ok;
  out["steps"] = report.steps;
  out["unproved_rules"] = report.unproved;
  const auto part = [](const char* places, const check::Replayed::ReplayCoverage& of) {
    return Json{{places, of.places + of.without.size()},
                {"steps", of.steps},
                {"rules", of.rules},
                {"without", of.without}};
  };
  out["cuts"] = part("operators", report.parallel.cuts);
  out["ways"] = part("operands", report.parallel.paths);
  out["values_checked"] = report.values;
  out["worst_error"] = report.worst_error;
  out["compared"] = report.values > 0 ? Json(describe_comparison(report)) : Json();
  out["programs"] = report.programs;
  out["virtual_devices"] = report.devices;
  out["micro_batches"] = report.micro_batches;
  if (!report.ok) {
    out["where"] = report.where;
    out["message"] = report.message;
  }
  return out;
}

// Prints how many places of the kind `what` the steps lead to, and by how many rules. Example:
// "operator", "sharded" -> "  3 operators sharded by 3 steps of 3 proved rules".
void print(const check::Replayed::ReplayCoverage& of, const char* what, const char* done) {
  if (of.places > 0) {
    std::cout << fmt::format("  {} {} by {} of {}\n",
                             pluralize(static_cast<std::int64_t>(of.places), what), done,
                             pluralize(static_cast<std::int64_t>(of.steps), "step"),
                             pluralize(static_cast<std::int64_t>(of.rules.size()), "proved rule"));
  }
  if (of.without.empty()) return;
  constexpr std::size_t kNamed = 3;
  const auto named = std::min(kNamed, of.without.size());
  const std::vector<std::string> first(of.without.begin(),
                                       of.without.begin() + static_cast<std::ptrdiff_t>(named));
  const auto more = of.without.size() - named;
  std::cout << fmt::format("  {} without a proved rule, checked by values only: {}{}\n", done,
                           join(first, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

void print(const check::Report& report, const plan::Plan& origin) {
  std::cout << fmt::format("{} on {}, batch {}, strategy {}: {}\n", origin.model, origin.machine,
                           origin.batch, origin.strategy, report.ok ? "ok" : "not ok");
  if (!report.ok) std::cout << fmt::format("  {}: {}\n", report.where, report.message);
  if (report.steps > 0) {
    std::cout << fmt::format("  {} of the derivation replayed\n",
                             pluralize(static_cast<std::int64_t>(report.steps), "step"));
  }
  if (!report.unproved.empty()) {
    std::cout << fmt::format("  unproved rules: {}\n", join(report.unproved, ", "));
  }
  print(report.parallel.cuts, "operator", "sharded");
  print(report.parallel.paths, "operand", "resharded");
  if (report.values == 0) return;
  std::cout << fmt::format(
      "  compared {} with one device ({}): {} on at most {}, largest relative error {:.3g}\n",
      pluralize(static_cast<std::int64_t>(report.values), "tensor"), describe_comparison(report),
      pluralize(static_cast<std::int64_t>(report.programs), "small program"),
      pluralize(report.devices, "virtual device"), report.worst_error);
}

int run(const CheckFlags& flags) {
  const auto text = read_file(flags.path);
  const auto origin = plan::parse_origin(text, flags.path);
  const auto report = check_text(text, flags, origin);
  if (flags.json) {
    print_json(report_json(report, parse_reported_plan(text, flags.path, origin)));
  } else {
    print(report, origin);
  }
  return report.ok ? ExitCode::kDone : ExitCode::kCannot;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CheckFlags>();
  auto* command = add_command(app, "check", "verify that a plan computes what its model computes",
                              "check plan.json", flags->json);
  command->add_option("plan", flags->path, "plan file, like plan.json")->required();
  command->add_flag("--allow-unproved", flags->allow_unproved,
                    "accept a derivation that uses unproved rules");
  add_quiet_flag(*command);
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tandem::cli
