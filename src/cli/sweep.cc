#include "cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "cli/host.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

namespace tandem::cli {

namespace {

using search::Values;

// Splits a list of machines: "a:2,b:2,software=x" -> {"a:2", "b:2,software=x"}.
std::vector<std::string> split_machine_list(const std::string& text) {
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

std::vector<search::Axis> make_axes(const ExploreFlags& flags) {
  std::vector<search::Axis> out;
  search::Axis machines{.key = "machine", .values = {}};
  for (const auto& text : flags.machines) {
    std::ranges::move(split_machine_list(text), std::back_inserter(machines.values));
  }
  out.push_back(machines);
  if (!flags.scales.empty()) out.push_back({.key = "scale", .values = flags.scales});
  for (const auto& text : flags.vary) out.push_back(search::parse_axis(text));
  return out;
}

Variant make_variant(const ExploreFlags& flags, const Values& values) {
  Variant out{.job = flags.job, .strategies = flags.strategies};
  if (out.strategies.empty()) out.strategies = {"all"};
  for (const auto& [key, value] : values) vary(out, key, value);
  return out;
}

std::unique_ptr<Prepared> prepare(const Variant& variant) {
  auto out = std::make_unique<Prepared>(variant);
  note_missing_peak(out->setup.machine, out->setup.dtype);
  // Inference saves nothing for backward. Groups of strategies lose the settings that recompute;
  // settings that were given by name or by --vary are refused later.
  const auto recomputes = [](const auto& setting) {
    return setting.recompute != strategies::Recompute::kNone;
  };
  auto& settings = out->settings.possible;
  const bool has_others = !std::ranges::all_of(settings, recomputes);
  if (out->setup.mode == lower::Mode::kInference && has_others) {
    std::erase_if(settings, recomputes);
  }
  return out;
}

// Returns whether an error makes only its combination of values impossible. Errors of machine files
// and of reading files concern all combinations.
bool is_impossible(const UserError& error) {
  return error.kind != "machine" && error.kind != "file";
}

// Adds the cases of all combinations to `out`, and impossible combinations with their reasons.
// Returns the settings of each case. Throws UserError if no combination is possible.
std::vector<std::vector<strategies::Setting>> add_cases(const ExploreFlags& flags,
                                                        SweepResult& out) {
  std::vector<std::vector<strategies::Setting>> settings;
  const auto axes = make_axes(flags);
  check_axes(axes, flags.job.model_text);
  const bool one_machine = axes[0].values.size() == 1;
  for (auto& values : list_combinations(axes)) {
    const auto variant = make_variant(flags, values);
    // The machine is not a varied value if all cases share it.
    if (one_machine) values.erase(values.begin());
    try {
      auto prepared = prepare(variant);
      out.cases.push_back(make_case(prepared->setup, prepared->problem, std::move(values)));
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

// Sets `runs` and `run_of_case`.
void group_by_run(SweepResult& explored) {
  for (const auto& on : explored.cases) {
    auto values = on.values;
    std::erase_if(values, [](const auto& value) { return is_strategy_key(value.first); });
    const auto at = std::ranges::find(explored.runs, values);
    explored.run_of_case.push_back(static_cast<std::size_t>(at - explored.runs.begin()));
    if (at == explored.runs.end()) explored.runs.push_back(std::move(values));
  }
}

// Merges equal points, drops those that do not fit if `fits` is set, and sets `of_case`.
void choose_points(SweepResult& explored, bool fits) {
  auto& points = explored.result.points;
  std::vector<std::size_t> case_of_point;
  case_of_point.reserve(points.size());
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

}  // namespace

SweepResult explore_all(const ExploreFlags& flags) {
  SweepResult out;
  const auto settings = add_cases(flags, out);
  const Interrupt interrupt;
  Progress progress;
  out.result = explore(out.cases, settings,
                       {.threads = resolve_thread_count(flags.threads),
                        .progress =
                            [&](std::size_t done, std::size_t of) {
                              progress.show(fmt::format("exploring: {} of {}", done, of));
                            },
                        .stop = Interrupt::is_requested});
  auto& result = out.result;
  out.is_complete = result.is_complete();
  if (!out.is_complete) remark("tandem: interrupted; the results are incomplete");
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

}  // namespace tandem::cli
