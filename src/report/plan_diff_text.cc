// Prints the result of compare_plans as text and JSON.
#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "report/plan_diff.h"
#include "report/schedule_text.h"

namespace tandem::report {

namespace {

std::string value_text(const PlanDiff::Figure& figure, double value) {
  if (figure.key.ends_with("_bytes")) return format_bytes(value);
  if (figure.key == "mfu") return fmt::format("{:.1f} %", 100 * value);
  if (figure.key == "throughput" || figure.key == "tokens_per_s") return format_si(value) + "/s";
  return format_seconds(value);
}

std::string get_section_title(const std::string& section) {
  if (section == "step") return "Step";
  if (section == "memory") return "Memory at the peak, on the fullest device";
  return section == "serialized" ? "Time by kind, without overlap" : "Exposed communication";
}

std::string figures_table(const PlanDiff& diff) {
  std::string out;
  for (auto first = diff.figures.begin(); first != diff.figures.end();) {
    TextTable table({{""}, {"a", Align::kRight}, {"b", Align::kRight}, {"b / a", Align::kRight}});
    const auto& section = first->section;
    out += "\n" + get_section_title(section) + ":\n";
    for (; first != diff.figures.end() && first->section == section; ++first) {
      table.add({first->name, value_text(*first, first->a), value_text(*first, first->b),
                 first->a > 0 ? fmt::format("{:.3g}", first->b / first->a) : ""});
    }
    out += table.to_text();
  }
  return out;
}

std::string make_label(const std::string& field) {
  if (field == "recomputed_operators") return "recomputed operators";
  if (field == "gradients_summed_each_micro_batch") return "gradients reduced each micro-batch";
  if (field == "whole_gradients") return "unsharded gradients";
  auto label = field;
  std::ranges::replace(label, '_', ' ');
  return label;
}

std::string properties_text(const std::vector<PlanDiff::ComparedProperty>& fields) {
  std::string out;
  for (const auto& field : fields) {
    const auto label = make_label(field.name);
    out += field.a.empty() && field.b.empty()
               ? fmt::format("  {}: different\n", label)
               : fmt::format("  {}: {} -> {}\n", label, field.a, field.b);
  }
  return out;
}

std::string counted_name(const std::string& name, std::size_t count) {
  return count > 1 ? fmt::format("{} x{}", name, count) : name;
}

std::string placements_text(const PlanDiff& diff) {
  std::size_t differ = 0;
  for (const auto& group : diff.spread) differ += group.count;
  if (differ == 0) {
    return fmt::format("\nAll {} operators, weights and inputs have the same placement.\n",
                       diff.compared);
  }
  TextTable table({{""}, {""}, {""}});
  for (const auto& group : diff.spread) {
    table.add({counted_name(group.name, group.count), group.op, group.a});
    table.add({"", "", "-> " + group.b});
  }
  return fmt::format("\n{} of {} operators, weights and inputs have different placements:\n{}",
                     differ, diff.compared, table.to_text());
}

std::string nodes_text(const char* where, const std::vector<PlanDiff::Nodes>& groups) {
  if (groups.empty()) return "";
  constexpr std::size_t kMost = 20;
  std::vector<std::string> out;
  for (const auto& group : groups) {
    if (out.size() == kMost) {
      out.push_back(fmt::format("and {} more groups", groups.size() - kMost));
      break;
    }
    out.push_back(fmt::format("{} ({})", counted_name(group.name, group.count), group.op));
  }
  return fmt::format("  {}: {}\n", where, join(out, ", "));
}

std::string origin_text(const char* which, const PlanDiff::Rules& rules) {
  return rules.empty()
             ? fmt::format("  {}: the model's graph, without rewrites\n", which)
             : fmt::format("  {}: the model's graph, rewritten by {}\n", which, rules_text(rules));
}

std::string graph_section(const PlanDiff& diff) {
  const bool same_nodes = diff.only_a.empty() && diff.only_b.empty() && diff.changed.empty();
  if (diff.same_graph && same_nodes) {
    return diff.moves_differ ? "\nThe communication between operators differs.\n" : "";
  }
  auto out =
      std::string(diff.same_graph ? "\nThe graphs are equivalent, with different node names:\n"
                                  : "\nThe graphs differ:\n");
  if (diff.rules_a.empty() && diff.rules_b.empty()) {
    out += "  Both are their model's graph, without rewrites.\n";
  } else {
    out += origin_text("a", diff.rules_a) + origin_text("b", diff.rules_b);
  }
  return out + nodes_text("only in a", diff.only_a) + nodes_text("only in b", diff.only_b) +
         nodes_text("different in a and b", diff.changed);
}

}  // namespace

std::string diff_text(const PlanDiff& diff) {
  if (diff.is_same()) return "The plans are equal.\n";
  std::string out;
  if (!diff.header.empty()) out += "Job:\n" + properties_text(diff.header);
  for (const auto& note : diff.notes) out += "  " + note + "\n";
  out += figures_table(diff);
  out += diff.schedule.empty() ? "\nThe schedules are equal.\n"
                               : "\nSchedule:\n" + properties_text(diff.schedule);
  out += placements_text(diff) + graph_section(diff);
  return out.starts_with('\n') ? out.substr(1) : out;
}

namespace {

using Json = nlohmann::ordered_json;

Json fields_json(const std::vector<PlanDiff::ComparedProperty>& fields) {
  Json out = Json::array();
  for (const auto& field : fields) {
    out.push_back({{"name", field.name}, {"a", field.a}, {"b", field.b}});
  }
  return out;
}

Json nodes_json(const std::vector<PlanDiff::Nodes>& groups) {
  Json out = Json::array();
  for (const auto& group : groups) {
    out.push_back({{"name", group.name}, {"op", group.op}, {"count", group.count}});
  }
  return out;
}

Json rules_json(const PlanDiff::Rules& rules) {
  Json out = Json::array();
  for (const auto& rule : rules) out.push_back({{"name", rule.first}, {"times", rule.second}});
  return out;
}

}  // namespace

Json diff_json(const PlanDiff& diff) {
  Json out;
  out["same"] = diff.is_same();
  out["header"] = fields_json(diff.header);
  out["figures"] = Json::object();
  for (const auto& figure : diff.figures) {
    out["figures"][figure.section][figure.key] = {
        {"a", figure.a},
        {"b", figure.b},
        {"ratio", figure.a > 0 ? Json(figure.b / figure.a) : Json()}};
  }
  out["schedule"] = fields_json(diff.schedule);
  out["compared"] = diff.compared;
  out["spread"] = Json::array();
  for (const auto& group : diff.spread) {
    out["spread"].push_back({{"name", group.name},
                             {"op", group.op},
                             {"count", group.count},
                             {"a", group.a},
                             {"b", group.b}});
  }
  out["graph"] = {{"same", diff.same_graph},
                  {"moves_differ", diff.moves_differ},
                  {"rules_a", rules_json(diff.rules_a)},
                  {"rules_b", rules_json(diff.rules_b)},
                  {"only_a", nodes_json(diff.only_a)},
                  {"only_b", nodes_json(diff.only_b)},
                  {"changed", nodes_json(diff.changed)}};
  out["notes"] = diff.notes;
  return out;
}

}  // namespace tandem::report
