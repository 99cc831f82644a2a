#include "report/explanation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "report/block_words.h"
#include "report/digit_text.h"
#include "report/hot_spots.h"
#include "report/plan_text.h"
#include "report/schedule_text.h"
#include "report/simulation_text.h"

namespace tandem::report {

namespace {

constexpr std::size_t kTop = 5;

std::string percent_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "";
}

// Returns the passes that take time: "forward 1.2 ms, backward 2.3 ms".
std::string times_text(const OperatorTime& time) {
  std::vector<std::string> out;
  const auto add = [&](const char* pass, Seconds seconds) {
    if (seconds > Seconds{}) {
      out.push_back(fmt::format("{} {}", pass, format_seconds(seconds.value)));
    }
  };
  add("forward", time.forward);
  add("recompute", time.recompute);
  add("backward", time.backward);
  add("update", time.update);
  return join(out, ", ");
}

std::string operators_table(const std::vector<OperatorTime>& operators, Seconds compute) {
  TextTable table({{""}, {"", Align::kRight}, {"", Align::kRight}, {"", Align::kRight}, {""}});
  for (const auto& time : operators) {
    table.add({time.op, fmt::format("x{}", time.group.count), format_seconds(time.total().value),
               percent_text(time.total().value, compute.value), times_text(time)});
  }
  return table.to_text();
}

std::string slowest_table(const std::vector<OperatorTime>& nodes, Seconds compute) {
  TextTable table({{""}, {""}, {"", Align::kRight}, {"", Align::kRight}, {""}});
  for (std::size_t i = 0; i < std::min(kTop, nodes.size()); ++i) {
    table.add({nodes[i].group.text(), nodes[i].op, format_seconds(nodes[i].total().value),
               percent_text(nodes[i].total().value, compute.value), times_text(nodes[i])});
  }
  return table.to_text();
}

std::string transfers_table(const std::vector<TransferGroup>& transfers, const PlanView& view) {
  TextTable table({{""},
                   {""},
                   {"", Align::kRight},
                   {"", Align::kRight},
                   {"", Align::kRight},
                   {"", Align::kRight}});
  for (std::size_t i = 0; i < std::min(kTop, transfers.size()); ++i) {
    const auto& t = transfers[i];
    if (t.exposed <= Seconds{}) break;
    table.add({t.what, "over " + levels_text(t.digits, view.machine, view.program.digits),
               fmt::format("{} time{}", t.times, t.times == 1 ? "" : "s"),
               format_bytes(t.bytes.value), format_seconds(t.serialized.value),
               format_seconds(t.exposed.value) + " exposed"});
  }
  const auto out = table.to_text();
  return out.empty() ? "  none\n" : out;
}

std::string tensors_table(const std::vector<TensorGroup>& tensors, Bytes peak) {
  TextTable table({{""}, {""}, {"", Align::kRight}, {"", Align::kRight}});
  for (std::size_t i = 0; i < std::min(kTop, tensors.size()); ++i) {
    table.add({tensors[i].group.text(), tensors[i].part, format_bytes(tensors[i].bytes.value),
               percent_text(tensors[i].bytes.value, peak.value)});
  }
  return table.to_text();
}

std::string memory_section(const PlanView& view) {
  const auto tightest = view.memory();
  const auto peak = find_peak(view.program, tightest.needs);
  auto out =
      fmt::format("\nMemory at the peak: {} of {} on the fullest device{}, in {}:\n",
                  format_bytes(tightest.needs.peak.value), format_bytes(tightest.limit.value),
                  tightest.fits() ? "" : " (does not fit)", peak.when);
  out += memory_table(peak);
  return out + "Largest tensors:\n" +
         tensors_table(list_tensors_at_peak(view.program, tightest.needs), tightest.needs.peak);
}

std::string schedule_section(const PlanView& view) {
  std::string out = "\nSchedule:\n";
  for (const auto& sentence : describe_schedule(view)) out += "  " + sentence + "\n";
  const auto rules = count_derivation_rules(view.plan.derivation);
  out += rules.empty()
             ? "  The graph is the model's, without rewrites.\n"
             : fmt::format("  The graph is the model's, rewritten by {}.\n", rules_text(rules));
  return out;
}

}  // namespace

std::string explanation_text(const PlanView& view, std::int64_t tokens) {
  const auto& program = view.program;
  const auto& simulation = view.simulation;
  const auto shares = predict::break_down(program, simulation);
  const auto times = sum_task_times(program, simulation, simulation.busiest);
  auto out = headline_text(simulation, {.batch = view.plan.batch,
                                        .tokens = tokens,
                                        .memory = view.memory(),
                                        .margin = view.margin_text(),
                                        .parallelism = {}});
  out += fmt::format("  bound by    {}\n",
                     bound_text(shares, simulation, view.machine, program.digits));
  out += schedule_section(view);
  out += "\nLayout of operators and tensors:\n" + block_text(describe_blocks(view));
  out += "\nTime on the busiest device:\n" + time_table(shares, simulation);
  out += "\nCompute by operator:\n" +
         operators_table(sum_times_by_operator(program, times), simulation.compute);
  out +=
      "Slowest operators:\n" + slowest_table(sum_times_by_node(program, times), simulation.compute);
  const auto moves = communication_text(shares, view.machine, program.digits);
  if (!moves.empty()) {
    out += "\nCommunication, per device and step:\n" + moves;
    out += "Most exposed:\n" + transfers_table(sum_transfers_by_tensor(program, times), view);
  }
  return out + memory_section(view);
}

namespace {

using Json = nlohmann::ordered_json;

Json operator_json(const OperatorTime& time, bool by_node) {
  Json out;
  if (by_node) out["name"] = time.group.name;
  out["op"] = time.op;
  out["count"] = time.group.count;
  out["time_s"] = time.total().value;
  out["forward_s"] = time.forward.value;
  out["recompute_s"] = time.recompute.value;
  out["backward_s"] = time.backward.value;
  out["update_s"] = time.update.value;
  return out;
}

Json operators_json(const std::vector<OperatorTime>& all, bool by_node, std::size_t most) {
  Json out = Json::array();
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i) {
    out.push_back(operator_json(all[i], by_node));
  }
  return out;
}

Json block_words_json(const std::vector<BlockWords>& blocks) {
  Json out = Json::array();
  for (const auto& block : blocks) {
    Json json{{"count", block.count}};
    if (block.count > 1) {
      json["variable"] = block.variable;
      json["from"] = block.from;
    }
    json["spread"] = Json::array();
    for (const auto& line : block.lines) {
      json["spread"].push_back({{"how", line.how}, {"stored", line.stored}, {"nodes", line.nodes}});
    }
    if (!block.blocks.empty()) json["blocks"] = block_words_json(block.blocks);
    out.push_back(std::move(json));
  }
  return out;
}

Json most_exposed_json(const std::vector<TransferGroup>& transfers, const PlanView& view) {
  Json out = Json::array();
  for (std::size_t i = 0; i < std::min(kTop, transfers.size()); ++i) {
    const auto& t = transfers[i];
    out.push_back({{"what", t.what},
                   {"kind", t.kind},
                   {"over", levels_text(t.digits, view.machine, view.program.digits)},
                   {"times", t.times},
                   {"bytes", t.bytes.value},
                   {"serialized_s", t.serialized.value},
                   {"exposed_s", t.exposed.value}});
  }
  return out;
}

Json tensors_json(const std::vector<TensorGroup>& tensors) {
  Json out = Json::array();
  for (std::size_t i = 0; i < std::min(kTop, tensors.size()); ++i) {
    out.push_back({{"name", tensors[i].group.name},
                   {"part", tensors[i].part},
                   {"count", tensors[i].group.count},
                   {"bytes", static_cast<std::int64_t>(tensors[i].bytes.value)}});
  }
  return out;
}

Json schedule_json(const PlanView& view) {
  const auto& s = view.program.schedule;
  return {{"order", name(s.order)},
          {"stages", s.stages},
          {"micro_batches", s.micro_batches},
          {"semantics", name(s.semantics)},
          {"in_words", describe_schedule(view)}};
}

}  // namespace

Json explanation_json(const PlanView& view) {
  const auto& program = view.program;
  const auto memory = view.memory();
  const auto times = sum_task_times(program, view.simulation, view.simulation.busiest);
  Json out;
  out["feasible"] = memory.fits();
  out["margin"] = view.margin;
  out["memory_limit_bytes"] = static_cast<std::int64_t>(memory.limit.value);
  out.update(
      details_json(program, view.simulation, view.machine, find_peak(program, memory.needs)));
  out["schedule"] = schedule_json(view);
  out["rules"] = Json::array();
  for (const auto& rule : count_derivation_rules(view.plan.derivation)) {
    out["rules"].push_back({{"name", rule.first}, {"times", rule.second}});
  }
  out["blocks"] = block_words_json(describe_blocks(view));
  const auto operators = sum_times_by_operator(program, times);
  out["compute_by_operator"] = operators_json(operators, false, operators.size());
  out["slowest_operators"] = operators_json(sum_times_by_node(program, times), true, kTop);
  out["most_exposed"] = most_exposed_json(sum_transfers_by_tensor(program, times), view);
  out["largest_tensors"] = tensors_json(list_tensors_at_peak(program, memory.needs));
  return out;
}

}  // namespace tandem::report
