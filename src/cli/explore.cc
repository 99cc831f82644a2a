// tandem explore: every strategy of a model on machines, real or imagined, in time and memory.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/host.h"
#include "cli/interrupt.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/vary.h"
#include "report/exploration.h"
#include "strategies/layer_kinds.h"

namespace tandem::cli {

namespace {

using search::Case;
using search::Exploration;
using search::Values;

struct ExploreFlags {
  bool json = false;
  Job job;
  std::vector<std::string> machines;    // each may be several, with commas
  std::vector<std::string> strategies;  // groups or texts; empty: all
  std::vector<std::string> scales;
  std::vector<std::string> vary;
  unsigned threads = 0;  // 0: as many as there are
  std::size_t top = 15;
  bool fits = false;     // list only what does
  std::string csv, svg;  // files; empty: none
};

// A case with what it points to.
struct Prepared {
  Job job;
  Setup setup;
  strategies::Problem problem;
  VariantSettings settings;

  explicit Prepared(const Variant& variant)
      : job(variant.job),
        setup(resolve(job)),
        problem(setup.graph, setup.digits),
        settings(settings_of(variant, problem)) {}
};

// "a:2,b:2,software=x" are a:2 and b:2,software=x.
std::vector<std::string> machine_names(const std::string& text) {
  std::vector<std::string> out;
  for (const auto part : split(text, ',')) {
    if (!out.empty() && part.find('=') != std::string_view::npos) {
      out.back() += fmt::format(",{}", part);
    } else {
      out.emplace_back(part);
    }
  }
  return out;
}

std::vector<search::Axis> axes_of(const ExploreFlags& flags) {
  std::vector<search::Axis> out;
  search::Axis machines{.key = "machine", .values = {}};
  for (const auto& text : flags.machines) {
    std::ranges::move(machine_names(text), std::back_inserter(machines.values));
  }
  out.push_back(machines);
  if (!flags.scales.empty()) out.push_back({.key = "scale", .values = flags.scales});
  for (const auto& text : flags.vary) out.push_back(search::parse_axis(text));
  return out;
}

Variant variant_of(const ExploreFlags& flags, const Values& values) {
  Variant out{.job = flags.job, .strategies = flags.strategies};
  if (out.strategies.empty()) out.strategies = {"all"};
  for (const auto& [key, value] : values) vary(out, key, value);
  return out;
}

std::unique_ptr<Prepared> prepare(const Variant& variant) {
  auto out = std::make_unique<Prepared>(variant);
  note_peak(out->setup.machine, out->setup.dtype);
  // Of groups: what was asked for by name or by --vary is refused.
  const auto recomputes = [](const auto& setting) { return setting.recompute != "none"; };
  auto& settings = out->settings.possible;
  const bool has_others = !std::ranges::all_of(settings, recomputes);
  if (out->setup.phase == lower::Phase::kInference && has_others) {
    std::erase_if(settings, recomputes);
  }
  return out;
}

// A combination of values that there cannot be.
struct Impossible {
  Values values;
  UserError error;
};

struct Explored {
  std::vector<std::unique_ptr<Prepared>> prepared;
  std::vector<Case> cases;
  Exploration result;
  std::vector<Impossible> impossible;
  bool is_complete = true;
  // What strategies are tried on: cases without the settings of strategies that tell them apart.
  std::vector<Values> runs;
  std::vector<std::size_t> run_of_case;
  std::vector<std::vector<std::size_t>> of_case;  // its points, which other cases may share
  std::size_t without_fit = 0;                    // points that --fits leaves out

  // Combinations of values and strategies that there cannot be.
  [[nodiscard]] std::size_t skipped() const { return impossible.size() + result.refused.size(); }
};

// What stands in no machine file and what no file can be read for is wrong in any combination.
bool is_impossible(const UserError& error) {
  return error.kind != "machine" && error.kind != "file";
}

// The cases of all combinations; those that there cannot be are kept with the reason. Returns the
// settings of each case.
std::vector<std::vector<strategies::Setting>> add_cases(const ExploreFlags& flags, Explored& out) {
  std::vector<std::vector<strategies::Setting>> settings;
  const auto axes = axes_of(flags);
  check_axes(axes, flags.job.model_text);
  const bool one_machine = axes[0].values.size() == 1;
  for (auto& values : combinations(axes)) {
    const auto variant = variant_of(flags, values);
    // What all cases share is told once, not with each.
    if (one_machine) values.erase(values.begin());
    try {
      auto prepared = prepare(variant);
      out.cases.push_back(case_of(prepared->setup, prepared->problem, std::move(values)));
      settings.push_back(prepared->settings.possible);
      out.prepared.push_back(std::move(prepared));
    } catch (const UserError& error) {
      if (!is_impossible(error)) throw;
      out.impossible.push_back({std::move(values), error});
    }
  }
  if (out.cases.empty()) throw UserError(out.impossible.at(0).error);
  return settings;
}

void group_by_run(Explored& explored) {
  for (const auto& on : explored.cases) {
    auto values = on.values;
    std::erase_if(values, [](const auto& value) { return is_strategy_key(value.first); });
    const auto at = std::ranges::find(explored.runs, values);
    explored.run_of_case.push_back(static_cast<std::size_t>(at - explored.runs.begin()));
    if (at == explored.runs.end()) explored.runs.push_back(std::move(values));
  }
}

// Lists equal points once, and with --fits only what fits.
void choose_points(Explored& explored, bool fits) {
  auto& points = explored.result.points;
  std::vector<std::size_t> case_of_point;
  for (const auto& point : points) case_of_point.push_back(point.case_number);
  const auto merged = merge_equal(points, explored.run_of_case);
  constexpr auto kLeftOut = static_cast<std::size_t>(-1);
  std::vector<std::size_t> place(points.size(), kLeftOut);
  std::size_t count = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!fits || points[i].feasible) place[i] = count++;
  }
  explored.without_fit = points.size() - count;
  std::erase_if(points, [&](const auto& point) { return fits && !point.feasible; });
  explored.of_case.resize(explored.cases.size());
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const auto at = place[merged[i]];
    auto& own = explored.of_case[case_of_point[i]];
    if (at != kLeftOut && std::ranges::find(own, at) == own.end()) own.push_back(at);
  }
}

Explored explore_all(const ExploreFlags& flags) {
  Explored out;
  const auto settings = add_cases(flags, out);
  const Interrupt interrupt;
  Progress progress;
  out.result = explore(out.cases, settings,
                       {.threads = threads_of(flags.threads),
                        .progress =
                            [&](std::size_t done, std::size_t of) {
                              progress.show(fmt::format("exploring: {} of {}", done, of));
                            },
                        .stop = Interrupt::requested});
  auto& result = out.result;
  out.is_complete = result.is_complete();
  if (!out.is_complete) remark("tandem: stopped early; what follows is what there is");
  for (std::size_t c = 0; c < out.prepared.size(); ++c) {
    for (auto refused : out.prepared[c]->settings.refused) {
      refused.case_number = c;
      result.refused.push_back(std::move(refused));
    }
  }
  group_by_run(out);
  choose_points(out, flags.fits);
  return out;
}

Json index_or_null(const std::optional<std::size_t>& index) {
  return index ? Json(*index) : Json();
}

Json values_json(const Values& values) {
  Json out = Json::object();
  for (const auto& [key, value] : values) out[key] = value;
  return out;
}

Json point_json(const Explored& explored, const search::Point& point) {
  const auto& setup = explored.prepared[point.case_number]->setup;
  const auto& on = explored.cases[point.case_number];
  Json out{{"strategy", point.strategy}, {"case", point.case_number}};
  for (const auto& [key, value] : on.values) out["values"][key] = value;
  out["machine"] = setup.machine.name;
  out["batch"] = setup.batch;
  out["feasible"] = point.feasible;
  out.update(limit_json(setup.options.margin, search::tightest(point.simulation, on.limits).limit));
  out["over_bytes"] = static_cast<std::int64_t>(point.over.value);
  out["software"] = software_of(setup.machine);
  out["parallelism"] = to_json(
      parallelism_of(strategies::parse_setting(point.strategy),
                     step_size(*on.problem, setup.batch, layers_of(setup.model, setup.graph))));
  out.update(simulation_json(point.simulation, {.batch = setup.batch,
                                                .tokens = strategies::count_tokens(setup.graph),
                                                .devices = setup.machine.devices()}));
  out["exposed_pct"] = 100 * point.exposed_share();
  const auto& fsdp = explored.result.reference[point.case_number];
  out["speedup_over_fsdp"] = fsdp ? Json(point.throughput / *fsdp) : Json();
  if (!point.same_as.empty()) out["same_as"] = point.same_as;
  return out;
}

Json case_json(const Explored& explored, std::size_t number) {
  const auto& points = explored.result.points;
  const auto& setup = explored.prepared[number]->setup;
  const auto& own = explored.of_case[number];
  return {
      {"values", values_json(explored.cases[number].values)},
      {"model", setup.model.text},
      {"machine", setup.machine.name},
      {"devices", setup.machine.devices()},
      {"software", software_of(setup.machine)},
      {"batch", setup.batch},
      {"seq", sequence_of(setup.model)},
      {"fastest", index_or_null(fastest(points, own, search::Memory::kLimited))},
      {"fastest_without_limit", index_or_null(fastest(points, own, search::Memory::kUnlimited))},
      {"pareto", pareto_front(points, own)}};
}

void print_as_json(const Explored& explored, const ExploreFlags& flags) {
  const auto& result = explored.result;
  const auto& first = explored.prepared[0]->setup;
  Json out{{"model", flags.job.model_text},
           {"machine", join(flags.machines, ",")},
           {"devices", first.machine.devices()},
           {"software", software_of(first.machine)},
           {"batch", first.batch},
           {"seq", sequence_of(first.model)},
           {"dtype", name(first.dtype)},
           {"optimizer", name(first.options.optimizer)},
           {"task", flags.job.task.task},
           {"freeze", flags.job.task.freeze},
           {"stop_reason", explored.is_complete ? "done" : "interrupted"}};
  out["points"] = Json::array();
  for (const auto& point : result.points) out["points"].push_back(point_json(explored, point));
  out["pareto"] = pareto_front(result.points, all_points(result));
  out["ranking"] = search::ranking(result.points);
  for (std::size_t c = 0; c < explored.cases.size(); ++c) {
    out["cases"].push_back(case_json(explored, c));
  }
  out["refused"] = Json::array();
  for (const auto& r : result.refused) {
    out["refused"].push_back({{"strategy", r.strategy}, {"case", r.case_number}, {"why", r.why}});
  }
  out["impossible"] = Json::array();
  for (const auto& [values, error] : explored.impossible) {
    out["impossible"].push_back(
        {{"values", values_json(values)}, {"why", search::reason(error.message, error.hint)}});
  }
  out["skipped"] = explored.skipped();
  if (flags.fits) out["without_fit"] = explored.without_fit;
  print_json(out);
}

// What the model's text, the machine, the batch and the task do not say already.
std::string changes(const Values& values) {
  std::string out;
  for (const auto& [key, value] : values) {
    const bool is_told = key == "machine" || key == "batch" || key == "task" ||
                         is_hyperparameter(key) || (key == "scale" && value == "none");
    if (!is_told) out += fmt::format(", {} {}", key, value);
  }
  return out;
}

std::string title(const Explored& explored, std::size_t number) {
  const auto& [job, setup, problem, settings] = *explored.prepared[number];
  return fmt::format("{} on {} ({}), batch {}, {}{}", setup.model.text, setup.machine.name,
                     counted(setup.machine.devices(), "device"), setup.batch, job.task.task,
                     changes(explored.cases[number].values));
}

// The fastest that fits of every run, at most `most` of them.
std::string fastest_text(const Explored& explored, std::size_t most) {
  const auto& points = explored.result.points;
  const auto count = explored.runs.size();
  std::string out = "\nThe fastest that fits:\n";
  for (std::size_t r = 0; r < std::min(count, most); ++r) {
    auto own = all_points(explored.result);
    std::erase_if(own, [&](auto i) { return explored.run_of_case[points[i].case_number] != r; });
    const auto best = fastest(points, own, search::Memory::kLimited);
    const auto what = best ? fmt::format("{}, {}", points[*best].strategy,
                                         seconds_text(points[*best].simulation.iteration.value))
                           : std::string("nothing");
    out += fmt::format("  {}: {}\n", search::to_text(explored.runs[r]), what);
  }
  if (count > most) out += fmt::format("  ... and {} more\n", count - most);
  return out;
}

// "3 impossible combinations skipped, the first tp=3: 8 devices cannot be grouped so (...)"
std::string skipped_text(const Explored& explored) {
  const auto& refused = explored.result.refused;
  if (explored.skipped() == 0) return "";
  const auto [what, why] = explored.impossible.empty()
                               ? std::pair(refused[0].strategy, refused[0].why)
                               : std::pair(search::to_text(explored.impossible[0].values),
                                           search::reason(explored.impossible[0].error.message,
                                                          explored.impossible[0].error.hint));
  return fmt::format(
      "{} skipped, the first {}: {}\n",
      counted(static_cast<std::int64_t>(explored.skipped()), "impossible combination"), what, why);
}

void print_tables(const Explored& explored, const ExploreFlags& flags) {
  const auto& result = explored.result;
  if (explored.cases.size() == 1) {
    std::cout << title(explored, 0) << "\n\n"
              << report::exploration_table(result, explored.cases[0], 0, flags.top);
  } else {
    std::cout << fmt::format("{} on {}, {} cases\n\n", flags.job.model_text,
                             join(flags.machines, ","), explored.cases.size())
              << report::ranking_table(result, explored.cases, flags.top)
              << (explored.runs.size() > 1 ? fastest_text(explored, flags.top) : "");
  }
  const auto without_fit =
      explored.without_fit > 0 ? fmt::format("; {} more do not fit", explored.without_fit) : "";
  std::cout << fmt::format("\n{}, {} on a Pareto front{}\n{}",
                           counted(static_cast<std::int64_t>(result.points.size()), "point"),
                           pareto_front(result.points, all_points(result)).size(), without_fit,
                           skipped_text(explored));
}

// Before anything is computed.
void check_plot(const std::string& file) {
  const auto ending = std::filesystem::path(file).extension().string();
  if (ending.empty() || ending == ".svg") return;
  throw UserError("flag", "--plot", fmt::format("{}: there are no plots as {}", file, ending),
                  "plots are SVG: write it like 'front.svg'");
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
                    refused.empty() ? "there is nothing to explore" : refused[0].why);
  }
  if (!flags.csv.empty()) {
    write_file(flags.csv, report::exploration_csv(explored.result, explored.cases));
  }
  if (!flags.svg.empty()) {
    write_file(flags.svg,
               report::exploration_svg(explored.result, explored.cases, title(explored, 0)));
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
      add_command(app, "explore", "every strategy of a model, in time and memory",
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
  several("--machine", flags->machines, "NAME:SIZE or a machine file; several: A,B or again")
      ->required();
  several(
      "--strategy", flags->strategies,
      "all, baselines, memory_saving, pipelines, madmax_grid, or one; may stand again; default: "
      "all");
  several("--scale", flags->scales,
          "rates multiplied, like compute=10,inter=10; `none` for the machine as it is; each is a "
          "case (docs/explore.md)");
  several(
      "--vary", flags->vary,
      "KEY=A,B,...: batch, dtype, optimizer or another flag of what is run, a hyperparameter, a "
      "setting of the strategies such as tp, micro or recompute, software, or a field of the "
      "machine file such as device.bandwidth or level.node.latency; values that have commas "
      "themselves: KEY='A;B'");
  add_threads_flag(*command, flags->threads);
  add_quiet_flag(*command);
  command->add_flag("--fits", flags->fits, "list only strategies that fit");
  command->add_option("--top", flags->top, "lines of each table")
      ->check(kPositive)
      ->capture_default_str();
  command->add_option("--csv", flags->csv, "write the points to this file")->check(kFile);
  command
      ->add_option("--plot,--svg", flags->svg, "plot memory against throughput in this file (SVG)")
      ->check(kFile);
  command->callback([flags] { run(*flags); });
}

}  // namespace tandem::cli
