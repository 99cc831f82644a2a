#include "report/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/table.h"

namespace tandem::report {

namespace {

using nlohmann::ordered_json;
using validate::Answer;
using validate::GroupReport;
using validate::Row;
using validate::ValidationReport;

std::string_view name(Answer answer) {
  switch (answer) {
    case Answer::kFits:
      return "fits";
    case Answer::kMargin:
      return "margin";
    case Answer::kDoesNotFit:
      return "does not fit";
  }
  return "";
}

template <class Value>
ordered_json or_null(const std::optional<Value>& value) {
  if (!value) return nullptr;
  return *value;
}

ordered_json interval_json(const validate::Interval& i) { return {i.low, i.high}; }

ordered_json row_json(const Row& row) {
  ordered_json out = {{"id", row.id}, {"group", row.group}, {"metric", row.metric}};
  const auto number = [&](const std::optional<double>& value) -> ordered_json {
    if (!value) return nullptr;
    if (row.metric == "oom") return *value > 0;
    return *value;
  };
  out["measured"] = number(row.measured);
  out["predicted"] = number(row.predicted);
  out["error"] = or_null(row.error);
  if (row.answer) out["answer"] = name(*row.answer);
  if (row.filled) out["filled"] = *row.filled;
  if (!row.skipped.empty()) out["skipped"] = row.skipped;
  return out;
}

ordered_json group_json(const GroupReport& g) {
  ordered_json out = {{"n", g.n}, {"skipped", g.skipped}};
  const bool any = g.n > 0;
  out["mape"] = any ? ordered_json(g.mape) : nullptr;
  out["mape_95"] = any ? interval_json(g.interval) : nullptr;
  out["bias"] = any ? ordered_json(g.bias) : nullptr;
  out["by"] = g.by;
  out["judged"] = g.is_judged();
  out["spearman"] = or_null(g.spearman);
  out["regret"] = or_null(g.regret);
  out["constant_mape"] = or_null(g.constant_mape);
  out["best_constant_mape"] = or_null(g.best_constant_mape);
  out["best_constant_mape_95"] =
      g.best_constant_interval ? interval_json(*g.best_constant_interval) : nullptr;
  out["sweeps"] = g.sweeps;
  out["sweep_spearman"] = or_null(g.sweep_spearman);
  out["worst_regret"] = or_null(g.worst_regret);
  out["memory_n"] = g.memory_n;
  out["memory_mape"] = g.memory_n > 0 ? ordered_json(g.memory_mape) : nullptr;
  return out;
}

std::string percent(const std::optional<double>& fraction) {
  return fraction ? fmt::format("{:.1f}", 100 * *fraction) : "-";
}

std::string decimal(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

// Cells of a table by row. The first row has the titles.
using Cells = std::vector<std::vector<std::string>>;

Cells group_cells(const ValidationReport& report) {
  Cells out = {{"group", "n", "skipped", "error %", "95 %", "bias %", "50 % of peak",
                "best constant", "rank", "in sweeps", "regret %", "worst", "memory %"}};
  for (const auto& [group, judged] : report.groups) {
    const auto& g = judged;  // clang 14 captures no bindings
    const auto if_any = [&](double value) { return g.n > 0 ? std::optional(value) : std::nullopt; };
    out.push_back(
        {group, fmt::format("{}{}", g.n, g.n > 0 && !g.is_judged() ? "*" : ""),
         fmt::to_string(g.skipped), percent(if_any(g.mape)),
         g.n > 0 ? fmt::format("{}-{}", percent(g.interval.low), percent(g.interval.high)) : "-",
         percent(if_any(g.bias)), percent(g.constant_mape), percent(g.best_constant_mape),
         decimal(g.spearman), decimal(g.sweep_spearman), percent(g.regret), percent(g.worst_regret),
         g.memory_n > 0 ? percent(g.memory_mape) : "-"});
  }
  return out;
}

std::string to_aligned_text(const Cells& cells) {
  std::vector<TableColumn> columns;
  for (const auto& title : cells.front()) {
    columns.push_back({title, columns.empty() ? Align::kLeft : Align::kRight});
  }
  TextTable table(std::move(columns), 0);
  for (std::size_t r = 1; r < cells.size(); ++r) table.add(cells[r]);
  return table.to_text();
}

std::string as_markdown(const Cells& cells) {
  std::string out;
  for (std::size_t r = 0; r < cells.size(); ++r) {
    out += fmt::format("| {} |\n", fmt::join(cells[r], " | "));
    if (r > 0) continue;
    out += "|";
    for (std::size_t i = 0; i < cells[0].size(); ++i) out += i == 0 ? "---|" : "--:|";
    out += "\n";
  }
  return out;
}

std::string oom_text(const validate::OomReport& oom) {
  if (oom.n == 0) return {};
  return fmt::format(
      "Out of memory: {} of {} runs. Recall {} %, false positives {} %. {} answers within the "
      "margin are excluded from both; recall with these counted as missed: {} %.\n",
      oom.ran_out, oom.n, percent(oom.recall), percent(oom.false_alarms), oom.margin,
      percent(oom.recall_of_all));
}

std::string coverage_text(const ValidationReport& report) {
  if (!report.coverage) return {};
  return fmt::format(
      "Coverage: {} % of the training steps that state what was run are predicted, {} % of all.\n",
      percent(report.coverage), percent(report.coverage_of_all));
}

// Returns the number of skipped values by group and reason.
Cells skipped_cells(const ValidationReport& report) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  for (const auto& row : report.rows) {
    if (!row.skipped.empty()) ++counts[{row.group, row.skipped}];
  }
  Cells out = {{"group", "numbers", "reason"}};
  for (const auto& [key, count] : counts) {
    out.push_back({key.first, fmt::to_string(count), key.second});
  }
  return out;
}

// Returns the most frequent fields that no code reads: descriptions and misspelt names.
std::string unread_text(const ValidationReport& report) {
  constexpr std::size_t kMost = 12;
  if (report.unread.empty()) return {};
  std::vector<std::pair<std::string, std::size_t>> fields(report.unread.begin(),
                                                          report.unread.end());
  std::ranges::stable_sort(fields, std::greater(), [](const auto& field) { return field.second; });
  std::vector<std::string> named;
  for (const auto& [field, count] : fields) {
    if (named.size() < kMost) named.push_back(fmt::format("{} ({})", field, count));
  }
  if (fields.size() > kMost) named.push_back(fmt::format("{} more", fields.size() - kMost));
  return fmt::format("Fields not read (number of records): {}.\n", fmt::join(named, ", "));
}

// Returns the records with the largest errors. Omits the measured values, because some sources do
// not allow copies.
Cells worst_cells(const ValidationReport& report, std::size_t most) {
  std::vector<const Row*> rows;
  for (const auto& row : report.rows) {
    if (row.error) rows.push_back(&row);
  }
  std::ranges::stable_sort(rows, std::greater(),
                           [](const Row* row) { return std::abs(*row->error); });
  if (rows.size() > most) rows.resize(most);
  Cells out = {{"record", "group", "metric", "error %"}};
  for (const auto* row : rows) {
    out.push_back({row->id, row->group, row->metric, percent(row->error)});
  }
  return out;
}

}  // namespace

ordered_json validation_json(const ValidationReport& report) {
  ordered_json out;
  out["records"] = ordered_json::array();
  for (const auto& row : report.rows) out["records"].push_back(row_json(row));
  out["groups"] = ordered_json::object();
  for (const auto& [group, g] : report.groups) out["groups"][group] = group_json(g);
  const auto& oom = report.oom;
  out["oom"] = {{"n", oom.n},
                {"recall", or_null(oom.recall)},
                {"false_alarms", or_null(oom.false_alarms)},
                {"margin", oom.margin},
                {"ran_out", oom.ran_out},
                {"recall_of_all", or_null(oom.recall_of_all)},
                {"margin_ids", oom.margin_ids}};
  out["fields_not_read"] = report.unread;
  out["coverage"] = or_null(report.coverage);
  out["coverage_of_all"] = or_null(report.coverage_of_all);
  const bool any = std::ranges::any_of(report.groups,
                                       [](const auto& group) { return group.second.by == "time"; });
  out["mape"] = any ? ordered_json(report.mape) : nullptr;
  return out;
}

std::string validation_text(const ValidationReport& report) {
  auto out = to_aligned_text(group_cells(report));
  out += "\nerror: mean of |predicted / measured - 1|; *: fewer than 15 records\n\n";
  out += oom_text(report.oom) + coverage_text(report) + unread_text(report);
  const auto skipped = skipped_cells(report);
  if (skipped.size() > 1) {
    out += "\nNot predicted:\n";
    TextTable table({{"", Align::kRight}, {""}});
    for (std::size_t i = 1; i < skipped.size(); ++i) {
      table.add({skipped[i][1], skipped[i][0] + ": " + skipped[i][2]});
    }
    out += table.to_text();
  }
  return out;
}

std::string validation_markdown(const ValidationReport& report) {
  constexpr std::size_t kWorst = 40;
  auto out = fmt::format("{}\n{}\n{}", as_markdown(group_cells(report)), coverage_text(report),
                         oom_text(report.oom));
  if (!report.oom.margin_ids.empty()) {
    out += fmt::format("\nWithin the margin: {}.\n", fmt::join(report.oom.margin_ids, ", "));
  }
  out += fmt::format("\n## Largest errors\n\n{}", as_markdown(worst_cells(report, kWorst)));
  const auto skipped = skipped_cells(report);
  if (skipped.size() > 1) out += fmt::format("\n## Not predicted\n\n{}", as_markdown(skipped));
  return out;
}

}  // namespace tandem::report
