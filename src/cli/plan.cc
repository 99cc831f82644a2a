// tandem plan, tandem compare: search for the fastest plan and compare it with the baselines.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/baselines.h"
#include "cli/command.h"
#include "cli/emphasis.h"
#include "cli/fitting_change.h"
#include "cli/host.h"
#include "cli/new_file.h"
#include "cli/report.h"
#include "cli/run_plan.h"
#include "lower/lower.h"
#include "plan/json.h"
#include "plan/micro_batches.h"
#include "plan/parallelization_derivation.h"
#include "report/plan_text.h"
#include "report/schedule_text.h"
#include "strategies/layer_kinds.h"

namespace tandem::cli {

namespace {

struct PlanFlags {
  bool json = false;
  Job job;
  std::string output;
  std::string report;  // file for the report page; empty: none
};

// Returns the fastest baseline that fits, or null if none fits.
const search::Evaluated* find_best_baseline(const search::Result& result) {
  const search::Evaluated* best = nullptr;
  for (const auto& b : result.baselines) {
    if (b.feasible && (best == nullptr || b.simulation.iteration < best->simulation.iteration))
      best = &b;
  }
  return best;
}

// Throws UserError if the search ended before its first eligible plan: then it is not known whether
// memory was the reason.
void check_has_eligible_plan(const search::Result& result) {
  if (!result.smallest.name.empty()) return;
  const auto why = result.stop_reason;
  if (why == search::StopReason::kInterrupted)
    throw UserError("plan", "the search", "was stopped before its first plan");
  throw UserError("flag", why == search::StopReason::kBudget ? "--budget" : "--max-candidates",
                  "ended the search before it came to a plan that may be chosen", "more of it");
}

// Returns why the search ended early: "the search ended after --budget 3".
std::string end_text(const Job& job, const search::Result& result) {
  if (result.stop_reason == search::StopReason::kBudget) {
    return fmt::format("the search ended after --budget {}", job.budget.value_or(0));
  }
  if (result.stop_reason == search::StopReason::kCandidates) {
    return fmt::format("the search ended after --max-candidates {}",
                       job.max_candidates.value_or(0));
  }
  return "the search was stopped";
}

Json changes_json(const FittingChange& change) {
  Json out = Json::array();
  for (const auto& [text, factor] : change.changes) {
    out.push_back({{"change", text}, {"factor", factor}});
  }
  return out;
}

int print_infeasible(const PlanFlags& flags, const Setup& setup, const search::Result& result) {
  check_has_eligible_plan(result);
  const auto tightest = search::find_tightest(result.smallest.simulation, result.limits);
  const auto change = find_fitting_change(flags.job, setup, result);
  if (flags.json) {
    Json out = {{"feasible", false},
                {"limit", fmt::format("device memory: {:.0f} bytes", tightest.limit.value)},
                {"over_by_bytes", static_cast<std::int64_t>(std::ceil(change.more.value))},
                {"smallest_change", change.changes.front().text},
                {"changes", changes_json(change)},
                {"stop_reason", name(result.stop_reason)}};
    out.update(limit_json(setup.options.margin, tightest.limit));
    if (!setup.machine.groups.empty()) out["group"] = setup.machine.groups[tightest.group].name;
    print_json(out);
  }
  std::vector<std::string> lines = {
      has_ended_early(setup, result)
          ? fmt::format("tandem: {} before it found a plan that fits", end_text(flags.job, result))
          : "tandem: nothing fits",
      "  plan with the least memory: " + result.smallest.name,
      fmt::format("  memory: needs {}, {} over the limit",
                  search::format_shortage(tightest, setup.machine, setup.margin_text()),
                  format_bytes(result.smallest.over.value))};
  for (const auto& [text, factor] : change.changes) {
    lines.push_back((lines.size() == 3 ? "  what would help: " : "               or: ") + text);
  }
  if (!change.note.empty()) lines.push_back("  note: " + change.note);
  complain(join(lines, "\n"));
  return ExitCode::kCannot;
}

// Returns the number of devices that an alternative to the plan uses.
std::int64_t count_devices(const Setup& setup, const search::Evaluated& row) {
  if (row.devices > 0) return row.devices;
  return setup.offered ? setup.offered->devices : setup.machine.devices();
}

// Returns the JSON of a baseline. If no settings of its family fit, it has those that need the
// least memory.
Json baseline_json(const Setup& setup, const search::Evaluated& b) {
  Json row{{"name", b.family}, {"strategy", b.name}, {"feasible", b.feasible}};
  row["iteration_s"] = b.feasible ? Json(b.simulation.iteration.value) : Json();
  row["memory_bytes"] =
      b.feasible ? Json(static_cast<std::int64_t>(b.simulation.memory.value)) : Json();
  if (setup.offered) row["devices"] = count_devices(setup, b);
  if (!b.feasible) {
    row["why"] = fmt::format("needs at least {} per device, {} over the limit",
                             format_bytes(b.simulation.memory.value), format_bytes(b.over.value));
  }
  return row;
}

// Returns the JSON of all baselines, the unusable ones included, so that the list of names does not
// depend on what is planned.
Json baselines_json(const Setup& setup, const search::Result& result) {
  Json out = Json::array();
  for (const auto& b : result.baselines) out.push_back(baseline_json(setup, b));
  for (const auto& unusable : list_unusable_baselines(setup, result)) {
    out.push_back({{"name", unusable.family},
                   {"strategy", unusable.family},
                   {"feasible", false},
                   {"iteration_s", nullptr},
                   {"memory_bytes", nullptr},
                   {"why", unusable.why}});
  }
  return out;
}

// Returns the alternatives to the plan by step time: faster plans that are more complex, and the
// best plan of each baseline family that fits.
std::vector<const search::Evaluated*> list_alternatives(const search::Result& result) {
  std::vector<const search::Evaluated*> out;
  for (const auto& faster : result.faster) out.push_back(&faster);
  for (const auto& b : result.baselines) {
    if (b.feasible && b.name != result.best->name) out.push_back(&b);
  }
  std::ranges::stable_sort(out, {}, [](const auto* row) { return row->simulation.iteration; });
  return out;
}

Json alternatives_json(const Setup& setup, const search::Result& result) {
  Json out = Json::array();
  for (const auto* row : list_alternatives(result)) {
    const auto time = row->simulation.iteration;
    out.push_back({{"name", row->family.substr(0, row->family.find(':'))},
                   {"strategy", row->name},
                   {"iteration_s", time.value},
                   {"memory_bytes", static_cast<std::int64_t>(row->simulation.memory.value)},
                   {"ratio", time / result.best->simulation.iteration}});
    if (setup.offered) out.back()["devices"] = count_devices(setup, *row);
  }
  return out;
}

// Returns the number of steps that derive the plan: rewrites, micro-batching, and parallelization.
std::size_t count_derivation_steps(const Setup& setup, const search::Evaluated& best) {
  const machine::Digits digits(setup.machine, best.mapped.schedule.micro_batches);
  return (best.rewritten ? best.rewritten->derivation.size() : 0) +
         plan::find_micro_batched(best.mapped).size() +
         plan::count_steps(plan::find_parallelization(best.mapped, digits));
}

Json plan_json(const Setup& setup, const search::Result& result) {
  const auto& best = *result.best;
  Json out = describe_costed_plan(make_plan(setup, best));
  out["devices_used"] = setup.machine.devices();
  if (setup.offered) {
    out["machine"] = setup.offered->machine_text;
    out["devices"] = setup.offered->devices;
    out["machine_used"] = setup.machine_text;
  }
  out.update(simulation_json(best.simulation, {.batch = setup.batch,
                                               .tokens = strategies::count_tokens(setup.graph),
                                               .devices = setup.machine.devices()}));
  out.update(limit_json(setup.options.margin,
                        search::find_tightest(best.simulation, result.limits).limit));
  out["search_s"] = result.search_s;
  out["candidates"] = result.candidates + result.estimated;
  out["stop_reason"] = name(result.stop_reason);
  out["lower_bound_s"] = result.lower_bound ? Json(result.lower_bound->value) : Json();
  out["bound_scope"] = result.lower_bound ? Json(result.bound_scope) : Json();
  out["baselines"] = baselines_json(setup, result);
  const auto* baseline = find_best_baseline(result);
  out["speedup_over_best_baseline"] =
      baseline == nullptr ? Json()
                          : Json(baseline->simulation.iteration / best.simulation.iteration);
  out["tolerance"] = setup.options.tolerance;
  out["fastest_s"] = result.fastest.value;
  out["alternatives"] = alternatives_json(setup, result);
  out["derivation_steps"] = count_derivation_steps(setup, best);
  out["rewrites"] = result.rewrites;
  if (result.runner_up) {
    const auto& next = *result.runner_up;
    out["runner_up"] = {{"strategy", next.name},
                        {"iteration_s", next.simulation.iteration.value},
                        {"memory_bytes", static_cast<std::int64_t>(next.simulation.memory.value)}};
  }
  return out;
}

// Work of one step, counted in the unit in which throughput is printed.
struct StepWork {
  double count = 0;
  std::string unit;  // "tokens", or "samples" of a network without tokens
};

StepWork compute_step_work(const Setup& setup) {
  const auto tokens = strategies::count_tokens(setup.graph);
  if (tokens > 0) return {static_cast<double>(tokens), "tokens"};
  return {static_cast<double>(setup.batch), "samples"};
}

// The table of the comparison, with the emphasis of each row.
class PlanComparison {
 public:
  PlanComparison(const Setup& setup, const search::Result& result)
      : setup_(setup),
        result_(result),
        work_(compute_step_work(setup)),
        table_({{"strategy"},
                {"step time", Align::kRight},
                {work_.unit + "/s/device", Align::kRight},
                {"MFU", Align::kRight},
                {"memory of " + format_bytes(limit().value), Align::kRight},
                {"vs plan", Align::kRight}}) {}

  void add(const std::string& label, const search::Evaluated& row) {
    const auto& s = row.simulation;
    const bool is_plan = &row == &*result_.best;
    const auto devices = is_plan ? setup_.machine.devices() : count_devices(setup_, row);
    const auto rate = work_.count / s.iteration.value / static_cast<double>(devices);
    const auto ratio = s.iteration / result_.best->simulation.iteration;
    table_.add({label, format_seconds(s.iteration.value), format_si(rate),
                fmt::format("{:.1f} %", 100 * s.mfu), format_bytes(s.memory.value),
                row.feasible ? fmt::format("{:.2f} x", ratio) : "does not fit"});
    emphases_.push_back(is_plan ? make_bold : row.feasible ? leave_plain : make_faint);
  }
  void add_unusable(const Unusable& unusable) {
    table_.add({unusable.family, "cannot be used: " + unusable.why});
    emphases_.push_back(make_faint);
  }

  void print() const {
    const auto lines = table_.lines();
    std::cout << make_faint(lines[0]) << "\n";
    for (std::size_t i = 1; i < lines.size(); ++i) std::cout << emphases_[i - 1](lines[i]) << "\n";
    std::cout << "\n";
  }

 private:
  static std::string leave_plain(const std::string& text) { return text; }
  [[nodiscard]] Bytes limit() const {
    return search::find_tightest(result_.best->simulation, result_.limits).limit;
  }

  const Setup& setup_;
  const search::Result& result_;
  StepWork work_;
  TextTable table_;
  std::vector<std::string (*)(const std::string&)> emphases_;  // by row
};

void print_comparison(const Setup& setup, const search::Result& result) {
  const auto& best = *result.best;
  std::cout << fmt::format(
      "{} on {} ({}), batch {}, {}, {}{}\n{}\n\n", setup.model.text, setup.machine.name,
      pluralize(setup.machine.devices(), "device"), setup.batch, name(setup.dtype),
      name(setup.options.optimizer),
      best.mapped.schedule.is_delayed() ? ", updates delayed by one step (PipeDream-2BW)" : "",
      make_bold(to_text(compute_parallelism(make_plan(setup, best)))));
  if (setup.offered) {
    std::cout << fmt::format(
        "Uses {} of {} devices ({} of {}); the others stay idle because {}.\n\n",
        setup.machine.devices(), setup.offered->devices, setup.machine_text,
        setup.offered->machine_text,
        setup.offered->fits ? "no plan that uses more of them is faster"
                            : "no plan for all of them was found that fits");
  }
  PlanComparison comparison(setup, result);
  comparison.add(best.name == "search" ? "plan" : "plan = " + best.name, best);
  for (const auto& faster : result.faster) comparison.add(faster.name + " (more complex)", faster);
  for (const auto& b : result.baselines) {
    comparison.add(
        b.devices > 0 ? fmt::format("{} on {}", b.name, pluralize(b.devices, "device")) : b.name,
        b);
  }
  for (const auto& unusable : list_unusable_baselines(setup, result)) {
    if (unusable.is_shown) comparison.add_unusable(unusable);
  }
  comparison.print();
}

// Returns which parts of the step time make the runner-up slower than the plan.
std::string runner_up_text(const search::Evaluated& best, const search::Evaluated& next) {
  const auto& a = best.simulation;
  const auto& b = next.simulation;
  const std::pair<std::string, Seconds> parts[] = {
      {"compute", b.compute - a.compute},
      {"exposed communication", b.exposed_comm - a.exposed_comm},
      {"stall", b.bubble - a.bubble}};
  std::vector<std::string> differences;
  for (const auto& [what, difference] : parts) {
    const auto size = Seconds{std::abs(difference.value)};
    if (size.value < 1e-3 * a.iteration.value) continue;
    differences.push_back(fmt::format("{} {} {}", format_seconds(size.value),
                                      difference > Seconds{} ? "more" : "less", what));
  }
  return fmt::format("Runner-up: {}, {:.3f} x the plan's step time ({}).\n", next.name,
                     b.iteration / a.iteration,
                     differences.empty() ? "the same parts" : join(differences, ", "));
}

// Returns "Lower bound 1 s for strategies of the grid that fit: optimality gap 5.0 %."
std::string bound_text(Seconds iteration, const search::Result& result) {
  const auto gap = iteration / std::max(*result.lower_bound, Seconds{1e-12}) - 1;
  return fmt::format("Lower bound {} for {}: optimality gap {:.3g} %.\n",
                     format_seconds(result.lower_bound->value), result.bound_scope,
                     std::max(0.0, 100 * gap));
}

// Returns "Training on 1T tokens takes 12.3 days." for a network with tokens, else "".
std::string training_text(const Setup& setup, Seconds iteration) {
  const auto work = compute_step_work(setup);
  if (work.unit != "tokens") return "";
  constexpr double kTokens = 1e12;
  constexpr double kSecondsOfDay = 86400;
  const auto days = kTokens / work.count * iteration.value / kSecondsOfDay;
  return fmt::format("Training on 1T tokens takes {} days.\n",
                     days < 1000 ? format_count(days) : fmt::format("{:.0f}", days));
}

// Returns "Rewritten by fuse-linear-relu at 12 places, share-linear at 4."
std::string rewrites_text(const rewrite::Derivation& derivation) {
  std::vector<std::string> words;
  for (const auto& [rule, times] : report::count_derivation_rules(derivation)) {
    words.push_back(
        fmt::format("{} at {}", rule, pluralize(static_cast<std::int64_t>(times), "place")));
  }
  return fmt::format("Rewritten by {}.\n\n", join(words, ", "));
}

void print_plan(const Setup& setup, const search::Result& result) {
  const auto& best = *result.best;
  const auto& s = best.simulation;
  print_comparison(setup, result);
  if (best.rewritten) std::cout << rewrites_text(best.rewritten->derivation);
  const machine::Digits digits(setup.machine, best.mapped.schedule.micro_batches);
  std::cout << make_bold("Layout of each operator:") << "\n"
            << report::layouts_text(best.mapped, setup.machine, digits);
  const auto program =
      lower::lower(best.mapped, digits, setup.machine.device.software, setup.options.optimizer);
  const auto fullest = search::find_tightest(s, result.limits);
  std::cout << "\n"
            << make_bold("Communication, per device and step:") << "\n"
            << report::communication_text(predict::break_down(program, s), setup.machine,
                                          program.digits);
  std::cout << fmt::format(
      "\nCompute {}, exposed communication {}, stall {}. Memory {} of {}{}. MFU {:.1f} %.\n",
      format_seconds(s.compute.value), format_seconds(s.exposed_comm.value),
      format_seconds(s.bubble.value), format_bytes(fullest.needs.peak.value),
      format_bytes(fullest.limit.value), setup.margin_text(), 100 * s.mfu);
  if (!result.faster.empty()) {
    std::cout << fmt::format(
        "The plan is the simplest within {:.3g} % of the fastest candidate, {}. --tolerance 0 "
        "selects the fastest.\n",
        100 * setup.options.tolerance, format_seconds(result.fastest.value));
  }
  std::cout << training_text(setup, s.iteration);
  if (result.runner_up) std::cout << runner_up_text(best, *result.runner_up);
  if (result.lower_bound) std::cout << bound_text(s.iteration, result);
  const auto estimated =
      result.estimated > 0 ? fmt::format(", {} estimated", result.estimated) : std::string();
  const auto ranked =
      result.rewrites > 0
          ? fmt::format("{}, ", pluralize(static_cast<std::int64_t>(result.rewrites), "rewrite"))
          : std::string();
  std::cout << fmt::format("Searched {:.2f} s: {}{} candidates simulated{}; {}.\n", result.search_s,
                           ranked, result.candidates, estimated, describe(result.stop_reason));
  if (is_measured_elsewhere(setup.machine_text)) {
    std::cout << "The times are for another computer: `tandem profile` measures this one.\n";
  }
}

int run_plan(const PlanFlags& flags) {
  auto setup = resolve(flags.job);
  note_missing_peak(setup.machine, setup.dtype);
  expect_writable(flags.output);
  expect_writable(flags.report);
  const auto result = find_plan_on_any_part(setup);
  if (!result.best) return print_infeasible(flags, setup, result);
  if (!flags.output.empty())
    write_file(flags.output, plan::to_json(make_plan(setup, *result.best)));
  if (!flags.report.empty()) write_report(flags.report, setup, result);
  if (flags.json) {
    print_json(plan_json(setup, result));
  } else {
    print_plan(setup, result);
  }
  return ExitCode::kDone;
}

int run_compare(const PlanFlags& flags) {
  auto setup = resolve(flags.job);
  note_missing_peak(setup.machine, setup.dtype);
  const auto result = find_plan_on_any_part(setup);
  if (!result.best) return print_infeasible(flags, setup, result);
  if (flags.json) {
    print_json(plan_json(setup, result));
  } else {
    print_comparison(setup, result);
  }
  return ExitCode::kDone;
}

std::shared_ptr<PlanFlags> add_search_command(CLI::App& app, const std::string& name,
                                              const std::string& doc, const std::string& example,
                                              int& exit_code, int run(const PlanFlags&),
                                              CLI::App** made) {
  auto flags = std::make_shared<PlanFlags>();
  auto* command = add_command(app, name, doc, example, flags->json);
  flags->job.add_flags(*command);
  flags->job.add_search_flags(*command);
  // Not part of add_search_flags, because `train` has a --seed with another meaning.
  command->add_option("--seed", flags->job.seed, "of the random walk of --search mcmc")
      ->check(kWhole)
      ->default_str("0");
  command->callback([flags, run, &exit_code] { exit_code = run(*flags); });
  *made = command;
  return flags;
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* command = nullptr;
  auto flags = add_search_command(
      app, "plan", "find the fastest way to train a network on a machine",
      "plan bert_large --machine summit:8 -o plan.json", exit_code, run_plan, &command);
  command->add_option("-o,--output", flags->output, "write the plan to this file")->check(kFile);
  command
      ->add_option("--report", flags->report,
                   "write a page to look at, with the plan and how it was found")
      ->check(kFile);
}

void add_compare(CLI::App& app, int& exit_code) {
  CLI::App* command = nullptr;
  add_search_command(app, "compare", "compare the found plan with every baseline",
                     "compare dlrm --machine summit:8", exit_code, run_compare, &command);
}

}  // namespace tandem::cli
