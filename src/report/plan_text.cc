#include "report/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "machine/node_layout.h"
#include "strategies/factor_kinds.h"

namespace tandem::report {

namespace {

using machine::Digits;
using machine::DigitUse;
using machine::Machine;

// Features, rows and columns are told by the factor of the operator's index text: n, k, d.
std::string use_text(const strategies::AnalyzedNode& node, DigitUse use) {
  using strategies::FactorKind;
  if (use.is_factor()) {
    switch (node.kinds[use.factor()]) {
      case FactorKind::kData:
        return "batch";
      case FactorKind::kSequence:
        return "sequence";
      case FactorKind::kHead:
        return "heads";
      case FactorKind::kSpatial:
      case FactorKind::kModel:
        return node.signature.map.factors[use.factor()].name;
    }
  }
  if (use.is_through()) return "partial";
  return use == DigitUse::kReplica ? "copies" : "idle";
}

// "node 8", "node 2 socket 2".
std::string levels_text(machine::DigitMask mask, const Machine& machine, const Digits& digits) {
  std::vector<std::string> out;
  for (std::size_t l = 0; l < machine.levels.size(); ++l) {
    const auto size = digits.group_size(mask, l);
    if (size > 1) out.push_back(fmt::format("{} {}", machine.levels[l].name, size));
  }
  return join(out, " x ");
}

std::string uses_text(const strategies::AnalyzedNode& node, const machine::NodeLayout& layout,
                      const Machine& machine, const Digits& digits) {
  std::vector<std::string> order;
  std::map<std::string, machine::DigitMask> masks;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const auto use = use_text(node, layout.uses[i]);
    if (!masks.contains(use)) order.push_back(use);
    masks[use] |= machine::DigitMask{1} << i;
  }
  std::vector<std::string> out;
  out.reserve(order.size());
  for (const auto& use : order) {
    out.push_back(fmt::format("{} over {}", use, levels_text(masks[use], machine, digits)));
  }
  return join(out, ", ");
}

// The first number in a name is taken for that of a layer or table: "l12.ffn1" -> "l*.ffn1".
std::string folded_name(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  const auto first = name.find_first_of(kDigits);
  if (first == std::string::npos) return name;
  const auto after = std::min(name.find_first_not_of(kDigits, first), name.size());
  return name.substr(0, first) + "*" + name.substr(after);
}

}  // namespace

std::string layouts_text(const plan::MappedGraph& mapped, const Machine& machine,
                         const Digits& digits) {
  struct Line {
    std::string name, what;
    std::size_t count = 0;
  };
  std::vector<Line> lines;
  std::map<std::string, std::size_t> known;
  const auto& pcg = mapped.pcg;
  const auto nodes = strategies::analyze(pcg);
  for (auto id : pcg.ids()) {
    const auto& node = pcg.node(id);
    if (node.op.role() != ops::Role::kCompute) continue;
    std::vector<machine::Layout> layouts;
    for (auto i : pcg.inputs(id)) layouts.push_back(mapped.layouts[i.index()]);
    const auto& analyzed = nodes[id.index()];
    const auto uses = infer_node_layout(analyzed.signature, layouts);
    CHECK(uses.has_value(), node.name);
    const auto name = folded_name(node.name);
    const auto what =
        fmt::format("{:<14} {:<22} {}", node.op.name(), to_text(node.type.shape.sizes),
                    uses_text(analyzed, *uses, machine, digits));
    const auto [at, fresh] = known.try_emplace(name + what, lines.size());
    if (fresh) lines.push_back({node.name, what});
    ++lines[at->second].count;
  }
  std::string out;
  for (const auto& line : lines) {
    const auto name =
        line.count > 1 ? fmt::format("{} x{}", folded_name(line.name), line.count) : line.name;
    out += fmt::format("  {:<24} {}\n", name, line.what);
  }
  return out;
}

std::string communication_text(const lower::Program& program, const Machine& machine,
                               const sim::Simulation& simulation) {
  struct Sum {
    std::size_t count = 0;
    Bytes bytes;
    Seconds time;
  };
  std::map<std::string, Sum> sums;
  for (const auto& span : simulation.timeline) {
    if (span.device_class != simulation.busiest) continue;
    const auto& task = program.tasks[span.task];
    if (task.kind != lower::TaskKind::kMove) continue;
    auto& sum = sums[fmt::format("{:<15} over {}", machine::name(task.step.kind),
                                 levels_text(task.step.digits, machine, program.digits))];
    ++sum.count;
    sum.bytes += moved_bytes(program, task);
    sum.time += span.end - span.start;
  }
  std::string out;
  for (const auto& [what, sum] : sums) {
    out += fmt::format("  {:<42} {:>5} times {:>9} {:>9}\n", what, sum.count,
                       bytes_text(sum.bytes.value), seconds_text(sum.time.value));
  }
  return out;
}

}  // namespace tandem::report
