#include "report/exploration.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "report/plot.h"

namespace tandem::report {

namespace {

using search::Case;
using search::Exploration;

std::vector<std::size_t> sort_fastest_first(const Exploration& exploration,
                                            std::size_t case_number) {
  auto out = list_case_points(exploration, case_number);
  std::ranges::stable_sort(
      out, {}, [&](std::size_t i) { return exploration.points[i].simulation.iteration; });
  return out;
}

// Returns a cell of CSV: quoted if it contains a comma, a quote or a line end.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

// Returns "pareto, error up to 15 %, same as dp:recompute=selective".
std::string notes_text(const search::Evaluated& point, bool is_front) {
  std::vector<std::string> notes;
  if (is_front) notes.emplace_back("pareto");
  if (point.is_rough())
    notes.push_back(fmt::format("error up to {:.0f} %", 100 * point.error_bound));
  if (!point.same_as.empty()) notes.push_back("same as " + point.same_as[0]);
  if (point.same_as.size() > 1) notes.push_back(fmt::format("{} more", point.same_as.size() - 1));
  return join(notes, ", ");
}

// A setting of the sweep and its value in each case.
struct SettingColumn {
  std::string key;
  std::vector<std::string> values;  // by case
};

// Returns the settings that differ between cases.
std::vector<SettingColumn> find_varying_settings(const std::vector<Case>& cases) {
  std::vector<SettingColumn> out;
  for (std::size_t k = 0; k < cases[0].values.size(); ++k) {
    SettingColumn column{.key = cases[0].values[k].first, .values = {}};
    for (const auto& on : cases) column.values.push_back(on.values[k].second);
    const auto differs = [&](const auto& value) { return value != column.values[0]; };
    if (std::ranges::any_of(column.values, differs)) out.push_back(std::move(column));
  }
  return out;
}

std::vector<bool> make_mask(const std::vector<std::size_t>& indices, std::size_t count) {
  std::vector<bool> out(count);
  for (auto i : indices) out[i] = true;
  return out;
}

}  // namespace

std::string exploration_table(const Exploration& exploration, const Case& on,
                              std::size_t case_number, std::size_t most) {
  const auto order = sort_fastest_first(exploration, case_number);
  const auto front =
      make_mask(find_pareto_front(exploration.points, order), exploration.points.size());
  const auto& fsdp = exploration.reference[case_number];
  const auto shown = std::min(most, order.size());
  TextTable table({{"strategy"},
                   {"step time", Align::kRight},
                   {"x fsdp", Align::kRight},
                   {"exposed", Align::kRight},
                   {"memory", Align::kRight},
                   {"fits"},
                   {""}});
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& p = exploration.points[order[i]];
    table.add({p.name, format_seconds(p.simulation.iteration.value),
               fsdp ? fmt::format("{:.2f}", p.throughput / *fsdp) : "",
               fmt::format("{:.1f} %", 100 * p.exposed_share()),
               format_bytes(p.simulation.memory.value), p.feasible ? "yes" : "no",
               notes_text(p, front[order[i]])});
  }
  auto out = table.to_text();
  if (order.size() > shown) out += fmt::format("  ... and {} slower\n", order.size() - shown);
  const auto best = find_fastest(exploration.points, order, search::MemoryConstraint::kLimited);
  const auto unlimited =
      find_fastest(exploration.points, order, search::MemoryConstraint::kUnlimited);
  if (!best) {
    out += fmt::format("  No strategy fits into the memory limit of {}.\n",
                       format_bytes(std::ranges::min(on.limits).value));
  } else if (best != unlimited) {
    const auto& a = exploration.points[*best];
    const auto& b = exploration.points[*unlimited];
    out += fmt::format(
        "  Fastest that fits: {}. Without the memory limit: {}, {:.2f} x as fast, {} over the "
        "limit.\n",
        a.name, b.name, b.throughput / a.throughput, format_bytes(b.over.value));
  }
  return out;
}

std::string ranking_table(const Exploration& exploration, const std::vector<Case>& cases,
                          std::size_t most) {
  const auto& points = exploration.points;
  const auto order = search::rank_by_throughput(points);
  const auto front = make_mask(find_pareto_front(points, order), points.size());
  const auto columns = find_varying_settings(cases);
  const auto shown = std::min(most, order.size());
  std::vector<TableColumn> titles = {{"strategy"}};
  for (const auto& column : columns) titles.push_back({column.key});
  for (const char* title : {"samples/s", "step time", "exposed", "memory"}) {
    titles.push_back({title, Align::kRight});
  }
  titles.push_back({"fits"});
  titles.push_back({""});
  TextTable table(std::move(titles));
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& p = points[order[i]];
    std::vector<std::string> cells = {p.name};
    for (const auto& column : columns) cells.push_back(column.values[p.case_number]);
    cells.push_back(format_si(p.throughput));
    cells.push_back(format_seconds(p.simulation.iteration.value));
    cells.push_back(fmt::format("{:.1f} %", 100 * p.exposed_share()));
    cells.push_back(format_bytes(p.simulation.memory.value));
    cells.emplace_back(p.feasible ? "yes" : "no");
    cells.push_back(notes_text(p, front[order[i]]));
    table.add(std::move(cells));
  }
  auto out = table.to_text();
  if (order.size() > shown) out += fmt::format("  ... and {} slower\n", order.size() - shown);
  return out;
}

std::string exploration_csv(const Exploration& exploration, const std::vector<Case>& cases) {
  std::string out;
  for (const auto& [key, value] : cases[0].values) out += csv_cell(key) + ",";
  out +=
      "strategy,batch,iteration_s,throughput,compute_s,exposed_comm_s,bubble_s,exposed_pct,"
      "memory_bytes,over_bytes,feasible,mfu,pareto\n";
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const auto points = list_case_points(exploration, c);
    const auto front =
        make_mask(find_pareto_front(exploration.points, points), exploration.points.size());
    for (auto i : points) {
      const auto& p = exploration.points[i];
      const auto& s = p.simulation;
      for (const auto& [key, value] : cases[c].values) out += csv_cell(value) + ",";
      out += fmt::format("{},{},{},{},{},{},{},{:.4f},{:.0f},{:.0f},{},{},{}\n", csv_cell(p.name),
                         cases[c].batch, s.iteration.value, p.throughput, s.compute.value,
                         s.exposed_comm.value, s.bubble.value, 100 * p.exposed_share(),
                         s.memory.value, p.over.value, p.feasible, s.mfu, bool{front[i]});
    }
  }
  return out;
}

std::string exploration_svg(const Exploration& exploration, const std::vector<Case>& cases,
                            const std::string& title) {
  constexpr double kGiga = 1e9;
  Scatter plot{.title = title,
               .x_label = "memory of the fullest device, GB",
               .y_label = "samples/s",
               .series = {}};
  const auto dot = [&](std::size_t i) {
    const auto& p = exploration.points[i];
    const auto& values = cases[p.case_number].values;
    return Dot{p.simulation.memory.value / kGiga, p.throughput,
               p.name + (values.empty() ? "" : " (" + search::to_text(values) + ")")};
  };
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const auto name =
        cases[c].values.empty() ? std::string("") : search::to_text(cases[c].values) + ": ";
    const auto points = list_case_points(exploration, c);
    auto front = find_pareto_front(exploration.points, points);
    const auto on_front = make_mask(front, exploration.points.size());
    Scatter::Series all{.name = name + "strategies", .dots = {}, .hollow = true};
    for (auto i : points) {
      if (!on_front[i]) all.dots.push_back(dot(i));
    }
    std::ranges::stable_sort(
        front, {}, [&](std::size_t i) { return exploration.points[i].simulation.memory; });
    Scatter::Series best{.name = name + "Pareto front", .dots = {}, .joined = true};
    for (auto i : front) best.dots.push_back(dot(i));
    if (cases.size() == 1) plot.series.push_back(std::move(all));
    plot.series.push_back(std::move(best));
  }
  if (cases.size() == 1) {
    plot.x_limit = {std::ranges::min(cases[0].limits).value / kGiga, "memory limit"};
  }
  return to_svg(plot);
}

}  // namespace tandem::report
