// Prints the facts of node_facts.h as text and JSON.
#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "report/digit_text.h"
#include "report/integers.h"
#include "report/node_facts.h"

namespace tandem::report {

namespace {

using Pass = NodeFacts::PassFacts;

std::string dims_text(const TensorType& type) {
  return fmt::format("{} {}", to_text(type.shape.sizes), name(type.dtype));
}

std::vector<std::string> tensor_row(const std::string& label,
                                    const NodeFacts::TensorFacts& tensor) {
  return {label, dims_text(tensor.type), to_text(tensor.shard), format_bytes(tensor.bytes.value),
          tensor.how.empty() ? "not sharded" : tensor.how};
}

// Returns a time that may be far below a nanosecond: "less than 1 ns", "3.2 ns", "1.2 ms".
std::string short_time_text(Seconds time) {
  constexpr Seconds kNanosecond{1e-9};
  if (time > Seconds{} && time < 0.5 * kNanosecond) return "less than 1 ns";
  if (time > Seconds{} && time < 1000 * kNanosecond) {
    return fmt::format("{:.3g} ns", time / kNanosecond);
  }
  return format_seconds(time.value);
}

// Appends "forward | 1.2 ms | bound by compute: compute 1.2 ms (4.3 GFLOP), memory 0.4 ms (33 MB)".
void add_pass_row(TextTable& table, const char* label, const std::optional<Pass>& pass) {
  if (!pass) return;
  const auto& time = pass->time;
  auto total = format_seconds(time.serialized.value);
  if (time.times > 1) {
    total += fmt::format(" ({} times {})", time.times,
                         format_seconds(time.serialized.value / static_cast<double>(time.times)));
  }
  std::string detail;
  if (const auto& r = pass->roofline; r && time.serialized > Seconds{}) {
    detail = fmt::format("bound by {}: compute {} ({}), memory {} ({}), launches {}", r->bound(),
                         short_time_text(r->compute), format_flops(r->flops.value),
                         short_time_text(r->memory), format_bytes(r->bytes.value),
                         short_time_text(r->launch));
  }
  if (time.times == 0) detail = "no kernel of its own: part of another kernel, or no work";
  table.add({label, std::move(total), std::move(detail)});
}

std::string passes_text(const NodeFacts& facts) {
  TextTable table({{""}, {""}, {""}});
  add_pass_row(table, "forward", facts.forward);
  add_pass_row(table, "recompute", facts.recompute);
  add_pass_row(table, "backward", facts.backward);
  add_pass_row(table, "update", facts.update);
  return table.to_text();
}

std::string transfers_text(const NodeFacts& facts, const PlanView& view) {
  if (facts.transfers.empty()) return "  none\n";
  TextTable table({{""},
                   {""},
                   {""},
                   {"", Align::kRight},
                   {"", Align::kRight},
                   {"", Align::kRight},
                   {"", Align::kRight}});
  for (const auto& t : facts.transfers) {
    table.add({t.backward ? "backward" : "forward", t.what,
               "over " + levels_text(t.digits, view.machine, view.program.digits),
               fmt::format("{} time{}", t.time.times, t.time.times == 1 ? "" : "s"),
               format_bytes(t.bytes.value), format_seconds(t.time.serialized.value),
               format_seconds(t.time.exposed.value) + " exposed"});
  }
  return table.to_text();
}

std::string head_text(const NodeFacts& facts, const PlanView& view) {
  auto out = fmt::format("%{}: {}", facts.name, facts.op);
  if (!facts.attributes.empty()) out += " " + facts.attributes;
  if (view.program.schedule.stages > 1 && facts.role == ops::Role::kCompute) {
    out += fmt::format(", in stage {} of {}", facts.stage, view.program.schedule.stages);
  }
  if (facts.equivalent_count > 1) {
    out += fmt::format("; one of {} equivalent nodes", facts.equivalent_count);
  }
  out += "\n";
  if (!facts.doc.empty()) out += fmt::format("  definition   {}\n", facts.doc);
  if (!facts.index.empty()) out += fmt::format("  index        {}\n", facts.index);
  if (!facts.users.empty()) {
    constexpr std::size_t kMost = 8;
    auto users = facts.users;
    if (users.size() > kMost) {
      users.resize(kMost);
      users.push_back(fmt::format("and {} more", facts.users.size() - kMost));
    }
    out += fmt::format("  read by      {}\n", join(users, ", "));
  }
  return out;
}

std::string shapes_text(const NodeFacts& facts) {
  TextTable table({{"tensor"}, {"shape"}, {"shard"}, {"per device", Align::kRight}, {"placement"}});
  for (const auto& operand : facts.operands) table.add(tensor_row(operand.name, operand));
  const bool is_source = facts.role == ops::Role::kSource;
  table.add(tensor_row(is_source ? facts.name : "result", facts.result));
  if (facts.state > Bytes{}) {
    table.add({"optimizer state", "", "", format_bytes(facts.state.value), ""});
  }
  return "\n" + table.to_text();
}

std::string backward_text(const NodeFacts& facts) {
  std::string out = "\nBackward pass:\n";
  if (!facts.has_gradient) out += "  No trained weight needs its gradient.\n";
  for (const auto& operand : facts.backward_operands) {
    out += fmt::format("  It reads {} ({}{}).\n", operand.name, format_bytes(operand.bytes.value),
                       operand.recomputed ? ", recomputed or regathered" : "");
  }
  if (facts.recomputed) {
    out += "  Its result is recomputed, not saved for backward.\n";
  } else if (!facts.reads.empty()) {
    constexpr std::size_t kMost = 4;
    auto reads = facts.reads;
    if (reads.size() > kMost) {
      reads.resize(kMost);
      reads.push_back(fmt::format("{} more", facts.reads.size() - kMost));
    }
    out += fmt::format("  Its result is saved for the backward pass of {}.\n", join(reads, ", "));
  } else if (facts.role == ops::Role::kCompute) {
    out += "  No backward pass reads its result.\n";
  }
  return out;
}

// When the tasks of a node run in a step.
struct NodeTiming {
  TaskTime first;     // the task that begins first
  Seconds last;       // end of the last task
  bool runs = false;  // false if the node has no tasks
};

NodeTiming compute_node_timing(const NodeFacts& facts) {
  NodeTiming out;
  for (const auto* pass : {&facts.forward, &facts.backward, &facts.recompute, &facts.update}) {
    if (!*pass || (*pass)->time.times == 0) continue;
    const auto& time = (*pass)->time;
    if (!out.runs || time.begin < out.first.begin) out.first = time;
    out.last = std::max(out.last, time.last);
    out.runs = true;
  }
  return out;
}

std::string timing_text(const NodeFacts& facts, const PlanView& view) {
  const auto place = compute_node_timing(facts);
  if (!place.runs) return "";
  return fmt::format("\nIn a step of {}, it first runs from {} to {}; its last task ends at {}.\n",
                     format_seconds(view.simulation.iteration.value),
                     format_seconds(place.first.begin.value), format_seconds(place.first.end.value),
                     format_seconds(place.last.value));
}

}  // namespace

std::string node_text(const NodeFacts& facts, const PlanView& view) {
  auto out = head_text(facts, view) + shapes_text(facts);
  out += facts.role == ops::Role::kCompute ? "\nWork of each machine level:\n"
                                           : "\nPlacement on each machine level:\n";
  for (const auto& level : facts.levels) out += "  " + level.text() + "\n";
  const auto passes = passes_text(facts);
  if (!passes.empty()) out += "\nTime on one device, per step:\n" + passes;
  out += "\nCommunication, per device and step:\n" + transfers_text(facts, view);
  if (facts.role == ops::Role::kCompute) out += backward_text(facts);
  return out + timing_text(facts, view);
}

namespace {

using Json = nlohmann::ordered_json;

Json sizes_json(const Shape& shape) {
  return std::vector<std::int64_t>(shape.begin(), shape.end());
}

Json tensor_json(const NodeFacts::TensorFacts& tensor) {
  return {{"name", tensor.name},
          {"shape", sizes_json(tensor.type.shape.sizes)},
          {"dtype", name(tensor.type.dtype)},
          {"type", to_text(tensor.type.shape)},
          {"shape_per_device", sizes_json(tensor.shard)},
          {"bytes_per_device", to_integer(tensor.bytes)},
          {"lies", tensor.how}};
}

Json pass_json(const std::optional<Pass>& pass) {
  if (!pass) return nullptr;
  Json out{{"time_s", pass->time.serialized.value},
           {"times", pass->time.times},
           {"start_s", pass->time.begin.value},
           {"end_s", pass->time.end.value},
           {"last_end_s", pass->time.last.value}};
  if (const auto& r = pass->roofline) {
    out["bound_by"] = r->bound();
    out["flops"] = r->flops.value;
    out["bytes"] = r->bytes.value;
    out["compute_s"] = r->compute.value;
    out["memory_s"] = r->memory.value;
    out["launch_s"] = r->launch.value;
  }
  return out;
}

Json transfers_json(const NodeFacts& facts, const PlanView& view) {
  Json out = Json::array();
  for (const auto& t : facts.transfers) {
    out.push_back({{"what", t.what},
                   {"of", t.of},
                   {"kind", t.kind},
                   {"over", levels_text(t.digits, view.machine, view.program.digits)},
                   {"backward", t.backward},
                   {"times", t.time.times},
                   {"bytes", to_integer(t.bytes)},
                   {"time_s", t.time.serialized.value},
                   {"exposed_s", t.time.exposed.value}});
  }
  return out;
}

Json backward_operands_json(const NodeFacts& facts) {
  Json out = Json::array();
  for (const auto& operand : facts.backward_operands) {
    out.push_back({{"name", operand.name},
                   {"bytes", to_integer(operand.bytes)},
                   {"recomputed", operand.recomputed}});
  }
  return out;
}

}  // namespace

Json node_json(const NodeFacts& facts, const PlanView& view) {
  Json out{{"name", facts.name},   {"op", facts.op},       {"attributes", facts.attributes},
           {"doc", facts.doc},     {"index", facts.index}, {"alike", facts.equivalent_count},
           {"stage", facts.stage}, {"users", facts.users}};
  out["operands"] = Json::array();
  for (const auto& operand : facts.operands) out["operands"].push_back(tensor_json(operand));
  out["result"] = tensor_json(facts.result);
  out["levels"] = Json::array();
  for (const auto& level : facts.levels) {
    out["levels"].push_back(
        {{"level", level.level}, {"count", level.count}, {"does", level.parts}});
  }
  out["forward"] = pass_json(facts.forward);
  out["recompute"] = pass_json(facts.recompute);
  out["backward"] = pass_json(facts.backward);
  out["update"] = pass_json(facts.update);
  out["communication"] = transfers_json(facts, view);
  out["needed_backward"] = backward_operands_json(facts);
  out["result_saved_for"] = facts.reads;
  out["result_recomputed"] = facts.recomputed;
  out["optimizer_state_bytes"] = to_integer(facts.state);
  const auto place = compute_node_timing(facts);
  out["start_s"] = place.runs ? Json(place.first.begin.value) : Json();
  out["end_s"] = place.runs ? Json(place.first.end.value) : Json();
  out["last_end_s"] = place.runs ? Json(place.last.value) : Json();
  return out;
}

}  // namespace tandem::report
