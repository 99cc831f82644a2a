#include "report/plan_text.h"

#include <fmt/format.h>

#include <map>

#include "base/text.h"
#include "machine/node_layout.h"

namespace tandem::report {

namespace {

using machine::Digits;
using machine::DigitUse;
using machine::Machine;

std::string use_text(const ops::Signature& s, DigitUse use) {
  if (use.is_factor()) return s.map.factors[use.factor()].name;
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

std::string uses_text(const ops::Signature& s, const machine::NodeLayout& layout,
                      const Machine& machine, const Digits& digits) {
  std::vector<std::string> order;
  std::map<std::string, machine::DigitMask> masks;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const auto use = use_text(s, layout.uses[i]);
    if (!masks.contains(use)) order.push_back(use);
    masks[use] |= machine::DigitMask{1} << i;
  }
  std::vector<std::string> out;
  for (const auto& use : order) {
    out.push_back(fmt::format("{} over {}", use, levels_text(masks[use], machine, digits)));
  }
  return join(out, ", ");
}

// "l12.ffn1" -> "l*.ffn1"; other names stay.
std::string folded_name(const std::string& name) {
  const auto dot = name.find('.');
  if (dot == std::string::npos || name.find_first_of("0123456789") > dot) return name;
  return name.substr(0, name.find_first_of("0123456789")) + "*" + name.substr(dot);
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
  for (auto id : pcg.ids()) {
    const auto& node = pcg.node(id);
    if (node.op.role() != ops::Role::kCompute) continue;
    std::vector<Shape> shapes;
    std::vector<machine::Layout> layouts;
    for (auto i : pcg.inputs(id)) {
      shapes.push_back(pcg.node(i).type.shape.sizes);
      layouts.push_back(mapped.layouts[i.index()]);
    }
    const auto s = ops::signature(node.op, shapes);
    const auto uses = infer_node_layout(s, layouts);
    CHECK(uses.has_value(), node.name);
    const auto name = folded_name(node.name);
    const auto what = fmt::format("{:<14} {:<22} {}", node.op.name(), to_text(node.type.shape.sizes),
                                  uses_text(s, *uses, machine, digits));
    const auto [at, fresh] = known.try_emplace(name + what, lines.size());
    if (fresh) lines.push_back({name, what});
    ++lines[at->second].count;
  }
  std::string out;
  for (const auto& line : lines) {
    const auto name = line.count > 1 ? fmt::format("{} x{}", line.name, line.count) : line.name;
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
