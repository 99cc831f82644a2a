// tandem plan, tandem compare: search for the best layouts, say what was found and what it beats.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/error.h"
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
#include "plan/parallelization.h"
#include "report/plan_text.h"
#include "report/schedule_text.h"
#include "strategies/layer_kinds.h"

namespace tandem::cli {

namespace {

struct PlanFlags {
  bool json = false;
  Job job;
  std::string output;
  std::string report;  // a file; empty: none
};

// The fastest baseline that fits, if any.
const search::Evaluated* best_baseline(const search::Result& result) {
  const search::Evaluated* best = nullptr;
  for (const auto& b : result.baselines) {
    if (b.feasible && (best == nullptr || b.simulation.iteration < best->simulation.iteration))
      best = &b;
  }
  return best;
}

// A search that ended before it came to a plan that may be chosen has found nothing about memory.
void check_something_was_tried(const search::Result& result) {
  if (!result.smallest.name.empty()) return;
  const auto why = result.stop_reason;
  if (why == search::StopReason::kInterrupted)
    throw UserError("plan", "the search", "was stopped before its first plan");
  throw UserError("flag", why == search::StopReason::kBudget ? "--budget" : "--max-candidates",
                  "ended the search before it came to a plan that may be chosen", "more of it");
}

// Why a search ended that was not done: "the search ended after --budget 3".
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
  check_something_was_tried(result);
  const auto tightest = search::tightest(result.smallest.simulation, result.limits);
  const auto change = fitting_change(flags.job, setup, result);
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
  const auto what = ended_early(setup, result)
                        ? fmt::format("{} before it found a plan that fits: the smallest so far",
                                      end_text(flags.job, result))
                        : std::string("nothing fits: the smallest plan found");
  complain(fmt::format("tandem: {}, {}, needs {} ({} too much); what would help: {}", what,
                       result.smallest.name,
                       search::shortage_text(tightest, setup.machine, setup.margin_text()),
                       bytes_text(result.smallest.over.value), change.text()));
  return ExitCode::kCannot;
}

// Of a row beside a plan for a part of the machine.
std::int64_t devices_of(const Setup& setup, const search::Evaluated& row) {
  return row.devices > 0 ? row.devices : setup.offered.value().devices;
}

// Where nothing of a family fits its row is of the settings that need least memory.
Json baseline_json(const Setup& setup, const search::Evaluated& b) {
  Json row{{"name", b.family}, {"strategy", b.name}, {"feasible", b.feasible}};
  row["iteration_s"] = b.feasible ? Json(b.simulation.iteration.value) : Json();
  row["memory_bytes"] =
      b.feasible ? Json(static_cast<std::int64_t>(b.simulation.memory.value)) : Json();
  if (setup.offered) row["devices"] = devices_of(setup, b);
  if (!b.feasible) {
    row["why"] = fmt::format("needs at least {} a device, {} too much",
                             bytes_text(b.simulation.memory.value), bytes_text(b.over.value));
  }
  return row;
}

// The same names whatever is planned.
Json baselines_json(const Setup& setup, const search::Result& result) {
  Json out = Json::array();
  for (const auto& b : result.baselines) out.push_back(baseline_json(setup, b));
  for (const auto& unusable : unusable_baselines(setup, result)) {
    out.push_back({{"name", unusable.family},
                   {"strategy", unusable.family},
                   {"feasible", false},
                   {"iteration_s", nullptr},
                   {"memory_bytes", nullptr},
                   {"why", unusable.why}});
  }
  return out;
}

// What may be had beside the plan: what is faster and more complicated, and each family's best.
std::vector<const search::Evaluated*> alternatives(const search::Result& result) {
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
  for (const auto* row : alternatives(result)) {
    const auto time = row->simulation.iteration;
    out.push_back({{"name", row->family.substr(0, row->family.find(':'))},
                   {"strategy", row->name},
                   {"iteration_s", time.value},
                   {"memory_bytes", static_cast<std::int64_t>(row->simulation.memory.value)},
                   {"ratio", time / result.best->simulation.iteration}});
    if (setup.offered) out.back()["devices"] = devices_of(setup, *row);
  }
  return out;
}

// Of algebra, of micro-batches, and those that make it parallel.
std::size_t derivation_steps(const Setup& setup, const search::Evaluated& best) {
  const machine::Digits digits(setup.machine, best.mapped.schedule.micro_batches);
  return (best.rewritten ? best.rewritten->derivation.size() : 0) +
         plan::micro_batched(best.mapped).size() +
         plan::step_count(plan::parallelization_of(best.mapped, digits));
}

Json plan_json(const Setup& setup, const search::Result& result) {
  const auto& best = *result.best;
  Json out = echo_costed(make_plan(setup, best));
  out["devices_used"] = setup.machine.devices();
  if (setup.offered) {
    out["machine"] = setup.offered->machine_text;
    out["devices"] = setup.offered->devices;
    out["machine_used"] = setup.machine_text;
  }
  out.update(simulation_json(best.simulation, {.batch = setup.batch,
                                               .tokens = strategies::count_tokens(setup.graph),
                                               .devices = setup.machine.devices()}));
  out.update(
      limit_json(setup.options.margin, search::tightest(best.simulation, result.limits).limit));
  out["search_s"] = result.search_s;
  out["candidates"] = result.candidates + result.estimated;
  out["stop_reason"] = name(result.stop_reason);
  out["lower_bound_s"] = result.lower_bound ? Json(result.lower_bound->value) : Json();
  out["bound_scope"] = result.lower_bound ? Json(result.bound_scope) : Json();
  out["baselines"] = baselines_json(setup, result);
  const auto* baseline = best_baseline(result);
  out["speedup_over_best_baseline"] =
      baseline == nullptr ? Json()
                          : Json(baseline->simulation.iteration / best.simulation.iteration);
  out["tolerance"] = setup.options.tolerance;
  out["fastest_s"] = result.fastest.value;
  out["alternatives"] = alternatives_json(setup, result);
  out["derivation_steps"] = derivation_steps(setup, best);
  out["rewritings"] = result.rewritings;
  if (result.runner_up) {
    const auto& next = *result.runner_up;
    out["runner_up"] = {{"strategy", next.name},
                        {"iteration_s", next.simulation.iteration.value},
                        {"memory_bytes", static_cast<std::int64_t>(next.simulation.memory.value)}};
  }
  return out;
}

struct ComparedRow {
  std::string label;
  const search::Evaluated* costed;
};

std::string row_text(const ComparedRow& of, std::size_t width, const Setup& setup,
                     const search::Result& result) {
  const auto& row = *of.costed;
  const auto& s = row.simulation;
  const std::string against =
      row.feasible
          ? fmt::format("{:.2f} x the plan's time", s.iteration / result.best->simulation.iteration)
          : "does not fit";
  const auto text = fmt::format("  {:<{}} {:>9} {:>12}/s {:>9}   {}", of.label, width,
                                seconds_text(s.iteration.value),
                                si(static_cast<double>(setup.batch) / s.iteration.value),
                                bytes_text(s.memory.value), against);
  const bool is_plan = &row == &*result.best;
  return (is_plan ? strong(text) : row.feasible ? text : faint(text)) + "\n";
}

void print_comparison(const Setup& setup, const search::Result& result) {
  const auto& best = *result.best;
  std::cout << fmt::format(
      "{} on {} ({}), batch {}, {}, {}{}\n\n", setup.model.text, setup.machine.name,
      counted(setup.machine.devices(), "device"), setup.batch, name(setup.dtype),
      name(setup.options.optimizer),
      best.mapped.schedule.is_delayed() ? ", updates one step late (PipeDream-2BW)" : "");
  if (setup.offered) {
    std::cout << fmt::format(
        "Uses {} of the {} devices, {} of {}: the rest is idle, as {}.\n\n",
        setup.machine.devices(), setup.offered->devices, setup.machine_text,
        setup.offered->machine_text,
        setup.offered->fits ? "fewer are faster here" : "nothing was found that fits on all");
  }
  std::vector<ComparedRow> rows = {{best.name == "search" ? "plan" : "plan = " + best.name, &best}};
  for (const auto& faster : result.faster) {
    rows.push_back({faster.name + ", more complicated", &faster});
  }
  for (const auto& b : result.baselines) {
    rows.push_back({b.name, &b});
    if (b.devices > 0) rows.back().label += " on " + counted(b.devices, "device");
  }
  std::size_t width = 28;
  for (const auto& row : rows) width = std::max(width, row.label.size());
  std::cout << faint(fmt::format("  {:<{}} {:>9} {:>14} {:>9}", "", width, "iteration", "samples",
                                 "memory"))
            << "\n";
  for (const auto& row : rows) std::cout << row_text(row, width, setup, result);
  for (const auto& unusable : unusable_baselines(setup, result)) {
    if (!unusable.is_told) continue;
    std::cout << faint(fmt::format("  {:<{}} cannot be used: {}", unusable.family, width,
                                   unusable.why))
              << "\n";
  }
  std::cout << "\n";
}

// Where the time goes that the runner-up takes longer.
std::string runner_up_text(const search::Evaluated& best, const search::Evaluated& next) {
  const auto& a = best.simulation;
  const auto& b = next.simulation;
  const std::pair<std::string, Seconds> parts[] = {
      {"of compute", b.compute - a.compute},
      {"of communication not hidden", b.exposed_comm - a.exposed_comm},
      {"of idleness", b.bubble - a.bubble}};
  std::vector<std::string> differences;
  for (const auto& [what, difference] : parts) {
    const auto size = Seconds{std::abs(difference.value)};
    if (size.value < 1e-3 * a.iteration.value) continue;
    differences.push_back(fmt::format("{} {} {}", seconds_text(size.value),
                                      difference > Seconds{} ? "more" : "less", what));
  }
  return fmt::format("Next best is {}, {:.3f} x the plan's time: {}.\n", next.name,
                     b.iteration / a.iteration,
                     differences.empty() ? "much the same" : join(differences, ", "));
}

// "At least 1 s for strategies of the grid that fit: the plan is within 5.0 %. "
std::string bound_text(Seconds iteration, const search::Result& result) {
  const auto times = iteration / std::max(*result.lower_bound, Seconds{1e-12});
  const auto how_near = times <= 1  ? "takes no longer"
                        : times < 2 ? fmt::format("is within {:.1f} %", 100 * (times - 1))
                                    : fmt::format("takes {:.3g} times that", times);
  return fmt::format("At least {} for {}: the plan {}. ", seconds_text(result.lower_bound->value),
                     result.bound_scope, how_near);
}

// "Rewritten by fuse-linear-relu at 12 places, share-linear at 4."
std::string rewriting_text(const rewrite::Derivation& derivation) {
  std::vector<std::string> words;
  for (const auto& [rule, times] : report::derivation_rules(derivation)) {
    words.push_back(
        fmt::format("{} at {}", rule, counted(static_cast<std::int64_t>(times), "place")));
  }
  return fmt::format("Rewritten by {}.\n\n", join(words, ", "));
}

void print_plan(const Setup& setup, const search::Result& result) {
  const auto& best = *result.best;
  const auto& s = best.simulation;
  print_comparison(setup, result);
  if (best.rewritten) std::cout << rewriting_text(best.rewritten->derivation);
  std::cout << fmt::format("Parallelism: {}.\n\n", to_text(parallelism_of(make_plan(setup, best))));
  const machine::Digits digits(setup.machine, best.mapped.schedule.micro_batches);
  std::cout << strong("What every operator's devices do:") << "\n"
            << report::layouts_text(best.mapped, setup.machine, digits);
  const auto program = lower::lower(best.mapped, digits, setup.options.optimizer);
  const auto fullest = search::tightest(s, result.limits);
  std::cout << "\n"
            << strong("What communicates, per device and step:") << "\n"
            << report::communication_text(predict::break_down(program, s), setup.machine,
                                          program.digits);
  std::cout << fmt::format(
      "\nCompute {}, communication not hidden behind it {}, idle {}. Memory {} of {}{}. MFU "
      "{:.1f} %.\n",
      seconds_text(s.compute.value), seconds_text(s.exposed_comm.value),
      seconds_text(s.bubble.value), bytes_text(fullest.needs.peak.value),
      bytes_text(fullest.limit.value), setup.margin_text(), 100 * s.mfu);
  if (!result.faster.empty()) {
    std::cout << fmt::format(
        "The plan is the simplest within {:.3g} % of the fastest found, {}: --tolerance 0 takes "
        "that.\n",
        100 * setup.options.tolerance, seconds_text(result.fastest.value));
  }
  if (result.runner_up) std::cout << runner_up_text(best, *result.runner_up);
  if (result.lower_bound) std::cout << bound_text(s.iteration, result);
  const auto estimated =
      result.estimated > 0 ? fmt::format(", {} estimated", result.estimated) : std::string();
  const auto ranked =
      result.rewritings > 0
          ? fmt::format("{}, ", counted(static_cast<std::int64_t>(result.rewritings), "rewriting"))
          : std::string();
  std::cout << fmt::format("Searched {:.2f} s, {}{} candidates simulated{}: {}.\n", result.search_s,
                           ranked, result.candidates, estimated, name(result.stop_reason));
  if (is_measured_elsewhere(setup.machine_text)) {
    std::cout << "Times are another computer's: `tandem profile` measures this one.\n";
  }
}

int run_plan(const PlanFlags& flags) {
  auto setup = resolve(flags.job);
  note_peak(setup.machine, setup.dtype);
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
  note_peak(setup.machine, setup.dtype);
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
  // Not among those, for training has a seed of its own.
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
  add_search_command(app, "compare", "the found plan against every baseline",
                     "compare dlrm --machine summit:8", exit_code, run_compare, &command);
}

}  // namespace tandem::cli
