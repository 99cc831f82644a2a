#include "report/exploration.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "report/plot.h"

namespace tandem::report {

namespace {

using search::Case;
using search::Exploration;

std::vector<std::size_t> fastest_first(const Exploration& exploration, std::size_t case_number) {
  auto out = points_of(exploration, case_number);
  std::ranges::stable_sort(
      out, {}, [&](std::size_t i) { return exploration.points[i].simulation.iteration; });
  return out;
}

// Quoted where it has to be.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

// "pareto, within 15 %, also dp:recompute=selective"
std::string notes_text(const search::Evaluated& point, bool is_front) {
  std::vector<std::string> notes;
  if (is_front) notes.emplace_back("pareto");
  if (point.is_rough()) notes.push_back(fmt::format("within {:.0f} %", 100 * point.error_bound));
  if (!point.same_as.empty()) notes.push_back("also " + point.same_as[0]);
  if (point.same_as.size() > 1) notes.push_back(fmt::format("{} more", point.same_as.size() - 1));
  return join(notes, ", ");
}

// The values of a point's case, under the keys.
struct Column {
  std::string key;
  std::vector<std::string> values;  // by case
  std::size_t width = 0;
};

// Of what differs between cases.
std::vector<Column> columns_of(const std::vector<Case>& cases) {
  std::vector<Column> out;
  for (std::size_t k = 0; k < cases[0].values.size(); ++k) {
    Column column{.key = cases[0].values[k].first, .values = {}};
    column.width = column.key.size();
    for (const auto& on : cases) {
      column.values.push_back(on.values[k].second);
      column.width = std::max(column.width, column.values.back().size());
    }
    const auto differs = [&](const auto& value) { return value != column.values[0]; };
    if (std::ranges::any_of(column.values, differs)) out.push_back(std::move(column));
  }
  return out;
}

std::vector<bool> marked(const std::vector<std::size_t>& indices, std::size_t count) {
  std::vector<bool> out(count);
  for (auto i : indices) out[i] = true;
  return out;
}

}  // namespace

std::string exploration_table(const Exploration& exploration, const Case& on,
                              std::size_t case_number, std::size_t most) {
  const auto order = fastest_first(exploration, case_number);
  const auto front = marked(pareto_front(exploration.points, order), exploration.points.size());
  const auto& fsdp = exploration.reference[case_number];
  std::size_t width = 8;
  const auto shown = std::min(most, order.size());
  for (std::size_t i = 0; i < shown; ++i) {
    width = std::max(width, exploration.points[order[i]].name.size());
  }
  std::string out = fmt::format("  {:<{}}  {:>9}  {:>7}  {:>7}  {:>9}  fits\n", "strategy", width,
                                "time", "x fsdp", "exposed", "memory");
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& p = exploration.points[order[i]];
    const auto relative = fsdp ? fmt::format("{:.2f}", p.throughput / *fsdp) : "";
    auto line = fmt::format("  {:<{}}  {:>9}  {:>7}  {:>5.1f} %  {:>9}  {:<3}  {}", p.name, width,
                            seconds_text(p.simulation.iteration.value), relative,
                            100 * p.exposed_share(), bytes_text(p.simulation.memory.value),
                            p.feasible ? "yes" : "no", notes_text(p, front[order[i]]));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  if (order.size() > shown) out += fmt::format("  ... and {} slower\n", order.size() - shown);
  const auto best = fastest(exploration.points, order, search::Memory::kLimited);
  const auto unlimited = fastest(exploration.points, order, search::Memory::kUnlimited);
  if (!best) {
    out += fmt::format("  nothing fits: {} may be used\n",
                       bytes_text(std::ranges::min(on.limits).value));
  } else if (best != unlimited) {
    const auto& a = exploration.points[*best];
    const auto& b = exploration.points[*unlimited];
    out +=
        fmt::format("  fastest that fits: {}; without the limit {} is {:.2f} x as fast, {} over\n",
                    a.name, b.name, b.throughput / a.throughput, bytes_text(b.over.value));
  }
  return out;
}

std::string ranking_table(const Exploration& exploration, const std::vector<Case>& cases,
                          std::size_t most) {
  const auto& points = exploration.points;
  const auto order = search::ranking(points);
  const auto front = marked(pareto_front(points, order), points.size());
  const auto columns = columns_of(cases);
  const auto shown = std::min(most, order.size());
  std::size_t width = 8;
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, points[order[i]].name.size());
  std::string out = fmt::format("  {:<{}}", "strategy", width);
  for (const auto& column : columns) out += fmt::format("  {:<{}}", column.key, column.width);
  out +=
      fmt::format("  {:>9}  {:>9}  {:>7}  {:>9}  fits\n", "samples/s", "time", "exposed", "memory");
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& p = points[order[i]];
    auto line = fmt::format("  {:<{}}", p.name, width);
    for (const auto& column : columns) {
      line += fmt::format("  {:<{}}", column.values[p.case_number], column.width);
    }
    line += fmt::format("  {:>9}  {:>9}  {:>5.1f} %  {:>9}  {:<3}  {}", si(p.throughput),
                        seconds_text(p.simulation.iteration.value), 100 * p.exposed_share(),
                        bytes_text(p.simulation.memory.value), p.feasible ? "yes" : "no",
                        notes_text(p, front[order[i]]));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
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
    const auto points = points_of(exploration, c);
    const auto front = marked(pareto_front(exploration.points, points), exploration.points.size());
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
               .y_label = "samples a second",
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
    const auto points = points_of(exploration, c);
    auto front = pareto_front(exploration.points, points);
    const auto on_front = marked(front, exploration.points.size());
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
    plot.x_limit = {std::ranges::min(cases[0].limits).value / kGiga, "may be used"};
  }
  return svg(plot);
}

}  // namespace tandem::report
