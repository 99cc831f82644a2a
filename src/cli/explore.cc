// tandem explore: predicts time and memory of every strategy of a model, on real or imagined
// machines.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/host.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/sweep.h"
#include "report/exploration.h"
#include "strategies/layer_kinds.h"

namespace tandem::cli {

namespace {

using search::Values;

Json index_or_null(const std::optional<std::size_t>& index) {
  return index ? Json(*index) : Json();
}

Json values_json(const Values& values) {
  Json out = Json::object();
  for (const auto& [key, value] : values) out[key] = value;
  return out;
}

Json point_json(const SweepResult& explored, const search::Evaluated& point) {
  const auto& setup = explored.prepared[point.case_number]->setup;
  const auto& on = explored.cases[point.case_number];
  Json out{{"strategy", point.name}, {"case", point.case_number}};
  for (const auto& [key, value] : on.values) out["values"][key] = value;
  out["machine"] = setup.machine.name;
  out["batch"] = setup.batch;
  out["feasible"] = point.feasible;
  out.update(
      limit_json(setup.options.margin, search::find_tightest(point.simulation, on.limits).limit));
  out["over_bytes"] = static_cast<std::int64_t>(point.over.value);
  out["software"] = get_software(setup.machine);
  out["parallelism"] = to_json(strategies::compute_parallelism(
      strategies::parse_setting(point.name),
      make_step_size(*on.problem, setup.batch, count_layers(setup.model, setup.graph))));
  out.update(simulation_json(point.simulation, {.batch = setup.batch,
                                                .tokens = strategies::count_tokens(setup.graph),
                                                .devices = setup.machine.devices()}));
  out["exposed_pct"] = 100 * point.exposed_share();
  out["error_bound"] = point.error_bound;
  const auto& fsdp = explored.result.reference[point.case_number];
  out["speedup_over_fsdp"] = fsdp ? Json(point.throughput / *fsdp) : Json();
  if (!point.same_as.empty()) out["same_as"] = point.same_as;
  return out;
}

Json case_json(const SweepResult& explored, std::size_t number) {
  const auto& points = explored.result.points;
  const auto& setup = explored.prepared[number]->setup;
  const auto& own = explored.of_case[number];
  return {{"values", values_json(explored.cases[number].values)},
          {"model", setup.model.text},
          {"machine", setup.machine.name},
          {"devices", setup.machine.devices()},
          {"software", get_software(setup.machine)},
          {"batch", setup.batch},
          {"seq", get_sequence_length(setup.model)},
          {"fastest", index_or_null(find_fastest(points, own, search::MemoryConstraint::kLimited))},
          {"fastest_without_limit",
           index_or_null(find_fastest(points, own, search::MemoryConstraint::kUnlimited))},
          {"pareto", find_pareto_front(points, own)}};
}

void print_as_json(const SweepResult& explored, const ExploreFlags& flags) {
  const auto& result = explored.result;
  const auto& first = explored.prepared[0]->setup;
  Json out{{"model", flags.job.model_text},
           {"machine", join(flags.machines, ",")},
           {"devices", first.machine.devices()},
           {"software", get_software(first.machine)},
           {"batch", first.batch},
           {"seq", get_sequence_length(first.model)},
           {"dtype", name(first.dtype)},
           {"optimizer", name(first.options.optimizer)},
           {"task", flags.job.task.task},
           {"freeze", flags.job.task.freeze},
           {"stop_reason", explored.is_complete ? "done" : "interrupted"}};
  out["points"] = Json::array();
  for (const auto& point : result.points) out["points"].push_back(point_json(explored, point));
  out["pareto"] = find_pareto_front(result.points, list_points(result));
  out["ranking"] = search::rank_by_throughput(result.points);
  for (std::size_t c = 0; c < explored.cases.size(); ++c) {
    out["cases"].push_back(case_json(explored, c));
  }
  out["refused"] = Json::array();
  for (const auto& r : result.refused) {
    out["refused"].push_back({{"strategy", r.strategy}, {"case", r.case_number}, {"why", r.why}});
  }
  out["impossible"] = Json::array();
  for (const auto& [values, error] : explored.impossible) {
    out["impossible"].push_back({{"values", values_json(values)},
                                 {"why", search::format_reason(error.message, error.hint)}});
  }
  out["skipped"] = explored.count_skipped();
  if (flags.fits) out["without_fit"] = explored.without_fit;
  print_json(out);
}

// Returns ", KEY VALUE" for each varied value that the model's text, the machine, the batch and the
// task do not show.
std::string format_changes(const Values& values) {
  std::string out;
  for (const auto& [key, value] : values) {
    const bool is_in_header = key == "machine" || key == "batch" || key == "task" ||
                              key == "dtype" || key == "optimizer" || is_hyperparameter(key) ||
                              (key == "scale" && value == "none");
    if (!is_in_header) out += fmt::format(", {} {}", key, value);
  }
  return out;
}

std::string make_title(const SweepResult& explored, std::size_t number) {
  const auto& [job, setup, problem, settings] = *explored.prepared[number];
  const bool is_training = job.task.task != "inference";
  return fmt::format("{} on {} ({}), batch {}, {}, {}{}{}", setup.model.text, setup.machine.name,
                     pluralize(setup.machine.devices(), "device"), setup.batch, job.task.task,
                     name(setup.dtype),
                     is_training ? fmt::format(", {}", name(setup.options.optimizer)) : "",
                     format_changes(explored.cases[number].values));
}

// Returns a table of the fastest strategy that fits, for the first `most` runs.
std::string fastest_text(const SweepResult& explored, std::size_t most) {
  const auto& points = explored.result.points;
  const auto count = explored.runs.size();
  TextTable table({{""}, {""}, {"", Align::kRight}});
  for (std::size_t r = 0; r < std::min(count, most); ++r) {
    auto own = list_points(explored.result);
    std::erase_if(own, [&](auto i) { return explored.run_of_case[points[i].case_number] != r; });
    const auto best = find_fastest(points, own, search::MemoryConstraint::kLimited);
    std::vector<std::string> cells = {search::to_text(explored.runs[r])};
    if (best) {
      cells.push_back(points[*best].name);
      cells.push_back(format_seconds(points[*best].simulation.iteration.value));
    } else {
      cells.emplace_back("none");
    }
    table.add(std::move(cells));
  }
  const auto more = count > most ? fmt::format("  ... and {} more\n", count - most) : "";
  return "\nFastest strategy that fits:\n" + table.to_text() + more;
}

// Returns "3 impossible combinations skipped, the first is tp=3: REASON"; "" if none was skipped.
std::string skipped_text(const SweepResult& explored) {
  const auto& refused = explored.result.refused;
  if (explored.count_skipped() == 0) return "";
  const auto [what, why] =
      explored.impossible.empty()
          ? std::pair(refused[0].strategy, refused[0].why)
          : std::pair(search::to_text(explored.impossible[0].values),
                      search::format_reason(explored.impossible[0].error.message,
                                            explored.impossible[0].error.hint));
  return fmt::format(
      "{} skipped, the first is {}: {}\n",
      pluralize(static_cast<std::int64_t>(explored.count_skipped()), "impossible combination"),
      what, why);
}

void print_tables(const SweepResult& explored, const ExploreFlags& flags) {
  const auto& result = explored.result;
  if (explored.cases.size() == 1) {
    std::cout << make_title(explored, 0) << "\n\n"
              << report::exploration_table(result, explored.cases[0], 0, flags.top);
  } else {
    std::cout << fmt::format("{} on {}, {} cases\n\n", flags.job.model_text,
                             join(flags.machines, ","), explored.cases.size())
              << report::ranking_table(result, explored.cases, flags.top)
              << (explored.runs.size() > 1 ? fastest_text(explored, flags.top) : "");
  }
  const auto without_fit =
      explored.without_fit > 0 ? fmt::format("; {} more do not fit", explored.without_fit) : "";
  std::cout << fmt::format("\n{}, {} on the Pareto front{}\n{}",
                           pluralize(static_cast<std::int64_t>(result.points.size()), "point"),
                           find_pareto_front(result.points, list_points(result)).size(),
                           without_fit, skipped_text(explored));
}

// Throws UserError if the plot's file name has an unsupported extension. Called before anything is
// computed.
void check_plot(const std::string& file) {
  const auto ending = std::filesystem::path(file).extension().string();
  if (ending.empty() || ending == ".svg") return;
  throw UserError("flag", "--plot",
                  fmt::format("'{}' has the unsupported extension {}", file, ending),
                  "plots are SVG: use a name like front.svg");
}

void run(const ExploreFlags& flags) {
  check_plot(flags.svg);
  expect_writable(flags.svg);
  expect_writable(flags.csv);
  const auto explored = explore_all(flags);
  const auto& refused = explored.result.refused;
  const bool has_none = explored.result.points.empty() && explored.without_fit == 0;
  if (has_none && explored.is_complete) {
    throw UserError("strategy", refused.empty() ? "" : refused[0].strategy,
                    refused.empty() ? "there is no strategy to explore" : refused[0].why);
  }
  if (!flags.csv.empty()) {
    write_file(flags.csv, report::exploration_csv(explored.result, explored.cases));
  }
  if (!flags.svg.empty()) {
    write_file(flags.svg,
               report::exploration_svg(explored.result, explored.cases, make_title(explored, 0)));
  }
  if (flags.json) {
    print_as_json(explored, flags);
  } else {
    print_tables(explored, flags);
  }
}

}  // namespace

void add_explore(CLI::App& app, int& /*exit_code*/) {
  auto flags = std::make_shared<ExploreFlags>();
  auto* command =
      add_command(app, "explore", "predict time and memory of every strategy of a model",
                  "explore dlrm_a --machine zionex:16 --scale none --scale inter=10", flags->json);
  flags->job.add_flags(*command);
  flags->job.add_memory_flags(*command);
  flags->job.task.add_flags(*command);
  for (const char* other : {"--machine", "--stale-weights"}) {
    command->remove_option(command->get_option(other));
  }
  const auto several = [&](const char* name, std::vector<std::string>& into, const char* doc) {
    return command->add_option(name, into, doc)->allow_extra_args(false);
  };
  several("--machine", flags->machines,
          "NAME:SIZE or a machine file; several: A,B or repeat the flag")
      ->required();
  several(
      "--strategy", flags->strategies,
      "all, baselines, memory_saving, pipelines, madmax_grid, or one strategy; repeat the flag for "
      "several; default: all");
  several("--scale", flags->scales,
          "factors of the machine's rates, like compute=10,inter=10, or none; repeat the flag for "
          "several cases (docs/guides/explore.md)");
  several(
      "--vary", flags->vary,
      "KEY=A,B,...: one case for each value. KEY is batch, dtype, optimizer or another flag; a "
      "hyperparameter; a setting of the strategies such as tp, micro or recompute; software; or a "
      "field of the machine file such as device.bandwidth or level.node.latency. Separate values "
      "that contain commas by semicolons: KEY='A;B'");
  add_threads_flag(*command, flags->threads);
  add_quiet_flag(*command);
  command->add_flag("--fits", flags->fits, "list only strategies that fit");
  command->add_option("--top", flags->top, "number of rows in each table")
      ->check(kPositive)
      ->capture_default_str();
  command->add_option("--csv", flags->csv, "write the points to this CSV file")->check(kFile);
  command
      ->add_option("--plot,--svg", flags->svg,
                   "write a plot of memory against throughput to this SVG file")
      ->check(kFile);
  command->callback([flags] { run(*flags); });
}

}  // namespace tandem::cli
