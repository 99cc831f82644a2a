#include "report/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "machine/node_layout.h"
#include "report/digit_text.h"

namespace tandem::report {

using machine::Digits;
using machine::Machine;

std::string folded_name(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  const auto first = name.find_first_of(kDigits);
  if (first == std::string::npos) return name;
  const auto after = std::min(name.find_first_not_of(kDigits, first), name.size());
  return name.substr(0, first) + "*" + name.substr(after);
}

std::string layouts_text(const plan::MappedGraph& mapped, const Machine& machine,
                         const Digits& digits) {
  struct Line {
    std::string name, what;
    std::size_t count = 0;
    std::size_t again = 0;  // of these, computed again for the backward pass
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
    const auto uses = infer_node_layout(analyzed.signature, layouts, digits);
    CHECK(uses.has_value(), node.name);
    const auto name = folded_name(node.name);
    const auto what =
        fmt::format("{:<14} {:<22} {}", node.op.name(), to_text(node.type.shape.sizes),
                    uses_text(uses_of(analyzed, *uses, digits), machine, digits));
    const auto [at, fresh] = known.try_emplace(name + what, lines.size());
    if (fresh) lines.push_back({node.name, what});
    auto& line = lines[at->second];
    ++line.count;
    if (mapped.remake[id.index()]) ++line.again;
  }
  const auto again_text = [](const Line& line) -> std::string {
    if (line.again == 0) return "";
    if (line.again == line.count) return ", computed again";
    return fmt::format(", {} computed again", line.again);
  };
  std::string out;
  for (const auto& line : lines) {
    const auto name =
        line.count > 1 ? fmt::format("{} x{}", folded_name(line.name), line.count) : line.name;
    out += fmt::format("  {:<24} {}{}\n", name, line.what, again_text(line));
  }
  return out;
}

std::string communication_text(const std::vector<predict::Share>& shares, const Machine& machine,
                               const Digits& digits) {
  std::string out;
  for (const auto& share : shares) {
    if (share.is_compute()) continue;
    const auto what =
        fmt::format("{:<15} over {}", share.kind, levels_text(share.digits, machine, digits));
    out += fmt::format("  {:<42} {:>5} times {:>9} {:>9} {:>9} exposed\n", what, share.count,
                       bytes_text(share.bytes.value), seconds_text(share.serialized.value),
                       seconds_text(share.exposed.value));
  }
  return out;
}

}  // namespace tandem::report
