// tandem plan, tandem compare: search for the best layouts, say what was found and what it beats.
#include <fmt/format.h>

#include <iostream>

#include "base/text.h"
#include "cli/command.h"
#include "lower/lower.h"
#include "plan/json.h"
#include "report/plan_text.h"
#include "strategies/layer_kinds.h"

namespace tandem::cli {

namespace {

struct PlanFlags {
  bool json = false;
  Job job;
  std::string output;
};

// The fastest baseline that fits, if any.
const search::Costed* best_baseline(const search::Result& result) {
  const search::Costed* best = nullptr;
  for (const auto& b : result.baselines) {
    if (b.feasible && (best == nullptr || b.simulation.iteration < best->simulation.iteration))
      best = &b;
  }
  return best;
}

std::string smallest_change(const search::Tightest& tightest) {
  return tightest.needs.persistent > tightest.limit
             ? "more devices: weights and optimizer state alone need more than one has"
             : "a smaller batch, or more devices";
}

int print_infeasible(const machine::Machine& machine, const search::Result& result, bool json) {
  const auto tightest = search::tightest(result.smallest.simulation, result.limits);
  const auto over = result.smallest.over;
  if (json) {
    Json out = {{"feasible", false},
                {"limit", fmt::format("device memory: {:.0f} bytes", tightest.limit.value)},
                {"over_by_bytes", static_cast<std::int64_t>(over.value)},
                {"smallest_change", smallest_change(tightest)}};
    if (!machine.groups.empty()) out["group"] = machine.groups[tightest.group].name;
    print_json(out);
  }
  std::cerr << fmt::format(
      "tandem: nothing fits: the smallest plan found needs {} ({} too much); what would help: {}\n",
      search::shortage_text(tightest, machine), bytes_text(over.value), smallest_change(tightest));
  return ExitCode::kCannot;
}

Json baselines_json(const search::Result& result) {
  Json out = Json::array();
  for (const auto& b : result.baselines) {
    Json row{{"name", b.family}, {"strategy", b.name}, {"feasible", b.feasible}};
    row["iteration_s"] = b.feasible ? Json(b.simulation.iteration.value) : Json();
    row["memory_bytes"] =
        b.feasible ? Json(static_cast<std::int64_t>(b.simulation.memory.value)) : Json();
    out.push_back(row);
  }
  return out;
}

Json plan_json(const Setup& setup, const search::Result& result) {
  const auto& best = *result.best;
  Json out = echo(make_plan(setup, best));
  out.update(simulation_json(best.simulation, setup.batch, strategies::count_tokens(setup.graph)));
  out["search_s"] = result.search_s;
  out["candidates"] = result.candidates + result.estimated;
  out["stop_reason"] = result.stop_reason;
  out["lower_bound_s"] = result.lower_bound ? Json(result.lower_bound->value) : Json();
  out["baselines"] = baselines_json(result);
  const auto* baseline = best_baseline(result);
  out["speedup_over_best_baseline"] =
      baseline == nullptr ? Json()
                          : Json(baseline->simulation.iteration / best.simulation.iteration);
  out["derivation_steps"] = 0;
  return out;
}

std::string row_text(const std::string& label, const search::Costed& row, const Setup& setup,
                     const search::Result& result) {
  const auto& s = row.simulation;
  const std::string against =
      row.feasible
          ? fmt::format("{:.2f} x the plan's time", s.iteration / result.best->simulation.iteration)
          : "does not fit";
  return fmt::format("  {:<28} {:>9} {:>12}/s {:>9}   {}\n", label, seconds_text(s.iteration.value),
                     si(static_cast<double>(setup.batch) / s.iteration.value),
                     bytes_text(s.memory.value), against);
}

void print_comparison(const Setup& setup, const search::Result& result) {
  const auto& best = *result.best;
  std::cout << fmt::format("{} on {} ({}), batch {}, {}, {}{}\n\n", setup.model.text,
                           setup.machine.name, counted(setup.machine.devices(), "device"),
                           setup.batch, name(setup.dtype), name(setup.options.optimizer),
                           best.mapped.schedule.is_delayed() ? ", updates one step late" : "");
  std::cout << fmt::format("  {:<28} {:>9} {:>14} {:>9}\n", "", "iteration", "samples", "memory");
  std::cout << row_text(best.name == "search" ? "plan" : "plan = " + best.name, best, setup,
                        result);
  for (const auto& b : result.baselines) std::cout << row_text(b.name, b, setup, result);
  std::cout << "\n";
}

void print_plan(const Setup& setup, const search::Result& result) {
  const auto& best = *result.best;
  const auto& s = best.simulation;
  print_comparison(setup, result);
  const machine::Digits digits(setup.machine, best.mapped.schedule.micro_batches);
  std::cout << "What every operator's devices do:\n"
            << report::layouts_text(best.mapped, setup.machine, digits);
  const auto program = lower::lower(best.mapped, digits, setup.options.optimizer);
  const auto fullest = search::tightest(s, result.limits);
  std::cout << "\nWhat communicates, per device and step:\n"
            << report::communication_text(sim::break_down(program, s), setup.machine,
                                          program.digits);
  std::cout << fmt::format(
      "\nCompute {}, communication not hidden behind it {}, idle {}. Memory {} of {}. MFU {:.1f} "
      "%.\n",
      seconds_text(s.compute.value), seconds_text(s.exposed_comm.value),
      seconds_text(s.bubble.value), bytes_text(fullest.needs.peak.value),
      bytes_text(fullest.limit.value), 100 * s.mfu);
  if (result.lower_bound) {
    std::cout << fmt::format("At least {} for these layouts. ",
                             seconds_text(result.lower_bound->value));
  }
  const auto estimated =
      result.estimated > 0 ? fmt::format(", {} estimated", result.estimated) : std::string();
  std::cout << fmt::format("Searched {:.2f} s, {} candidates simulated{}: {}.\n", result.search_s,
                           result.candidates, estimated, result.stop_reason);
}

int run_plan(const PlanFlags& flags) {
  const auto setup = resolve(flags.job);
  const auto result = find_plan(setup);
  if (!result.best) return print_infeasible(setup.machine, result, flags.json);
  if (!flags.output.empty())
    write_file(flags.output, plan::to_json(make_plan(setup, *result.best)));
  if (flags.json) {
    print_json(plan_json(setup, result));
  } else {
    print_plan(setup, result);
  }
  return ExitCode::kDone;
}

int run_compare(const PlanFlags& flags) {
  const auto setup = resolve(flags.job);
  const auto result = find_plan(setup);
  if (!result.best) return print_infeasible(setup.machine, result, flags.json);
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
  command->add_option("-o,--output", flags->output, "write the plan to this file");
}

void add_compare(CLI::App& app, int& exit_code) {
  CLI::App* command = nullptr;
  add_search_command(app, "compare", "the found plan against every baseline",
                     "compare dlrm --machine summit:8", exit_code, run_compare, &command);
}

}  // namespace tandem::cli
