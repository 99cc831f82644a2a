#include "figure.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>

#include "base/error.h"
#include "report/plot.h"

namespace tandem::figures {

namespace {

std::string directory;

std::string format_cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "";
}
std::string quote(const std::string& text) {
  return text.find(',') == std::string::npos ? text : "\"" + text + "\"";
}

}  // namespace

void set_output_directory(const std::string& path) { directory = path; }

void write_file(const std::string& name, const std::string& text) {
  const auto path = directory + "/" + name;
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw UserError("file", path, "cannot be written");
}

void write_table(const Figure& figure) {
  std::string csv = "what,paper,madmax,tandem,note\n";
  std::cout << "\n" << figure.title << " (" << figure.label << ")\n";
  for (const auto& row : figure.rows) {
    csv += fmt::format("{},{},{},{},{}\n", quote(row.label), format_cell(row.paper),
                       format_cell(row.madmax), format_cell(row.tandem), quote(row.note));
    std::cout << fmt::format("  {:<44} {:>8} {:>8} {:>8}  {}\n", row.label, format_cell(row.paper),
                             format_cell(row.madmax), format_cell(row.tandem), row.note);
  }
  write_file(figure.file + ".csv", csv);
}

void write(const Figure& figure) {
  write_table(figure);
  report::Bars bars{.title = figure.title,
                    .label = figure.label,
                    .groups = {},
                    .series = {{"paper", {}}, {"MAD-Max's formulas", {}}, {"Tandem", {}}},
                    .reference = figure.reference,
                    .log = figure.log};
  for (const auto& row : figure.rows) {
    bars.groups.push_back(row.label);
    bars.series[0].values.push_back(row.paper);
    bars.series[1].values.push_back(row.madmax);
    bars.series[2].values.push_back(row.tandem);
  }
  write_file(figure.file + ".svg", report::to_svg(bars));
}

void write(const Breakdown& breakdown) {
  std::string csv = "what";
  report::Bars bars{
      .title = breakdown.title, .label = "seconds", .groups = {}, .series = {}, .stacked = true};
  for (const auto& kind : breakdown.kinds) {
    csv += "," + kind;
    bars.series.push_back({kind, {}});
  }
  csv += "\n";
  std::cout << "\n"
            << breakdown.title << ": " << fmt::format("{}", fmt::join(breakdown.kinds, ", "))
            << "\n";
  for (const auto& bar : breakdown.bars) {
    bars.groups.push_back(bar.label);
    csv += quote(bar.label);
    std::cout << fmt::format("  {:<44}", bar.label);
    for (std::size_t k = 0; k < bar.seconds.size(); ++k) {
      bars.series[k].values.emplace_back(bar.seconds[k]);
      csv += fmt::format(",{:.5g}", bar.seconds[k]);
      std::cout << fmt::format(" {:>9.4g}", bar.seconds[k]);
    }
    csv += "\n";
    std::cout << "\n";
  }
  write_file(breakdown.file + ".csv", csv);
  write_file(breakdown.file + ".svg", report::to_svg(bars));
}

}  // namespace tandem::figures
