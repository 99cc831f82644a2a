#include "report/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/table.h"
#include "base/text.h"
#include "machine/node_layout.h"
#include "report/digit_text.h"

namespace tandem::report {

using machine::Digits;
using machine::Machine;

std::string fold_name(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  const auto first = name.find_first_of(kDigits);
  if (first == std::string::npos) return name;
  const auto after = std::min(name.find_first_not_of(kDigits, first), name.size());
  return name.substr(0, first) + "*" + name.substr(after);
}

std::string layouts_text(const plan::MappedGraph& mapped, const Machine& machine,
                         const Digits& digits) {
  struct LayoutLine {
    std::string name, op, shape, layout;
    std::size_t count = 0;
    std::size_t recomputed = 0;  // number of these that are recomputed for the backward pass
  };
  std::vector<LayoutLine> lines;
  std::map<std::vector<std::string>, std::size_t> known;
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
    LayoutLine line{.name = node.name,
                    .op = std::string(node.op.name()),
                    .shape = to_text(node.type.shape.sizes),
                    .layout = uses_text(list_uses(analyzed, *uses, digits), machine, digits)};
    const auto [at, fresh] =
        known.try_emplace({fold_name(line.name), line.op, line.shape, line.layout}, lines.size());
    if (fresh) lines.push_back(std::move(line));
    auto& same = lines[at->second];
    ++same.count;
    if (mapped.recompute[id.index()]) ++same.recomputed;
  }
  const auto recomputed_text = [](const LayoutLine& line) -> std::string {
    if (line.recomputed == 0) return "";
    if (line.recomputed == line.count) return ", recomputed";
    return fmt::format(", {} recomputed", line.recomputed);
  };
  TextTable table({{""}, {""}, {""}, {""}});
  for (const auto& line : lines) {
    const auto name =
        line.count > 1 ? fmt::format("{} x{}", fold_name(line.name), line.count) : line.name;
    table.add({name, line.op, line.shape, line.layout + recomputed_text(line)});
  }
  return table.to_text();
}

std::string communication_text(const std::vector<predict::Share>& shares, const Machine& machine,
                               const Digits& digits) {
  TextTable table({{""},
                   {""},
                   {"", Align::kRight},
                   {"", Align::kRight},
                   {"", Align::kRight},
                   {"", Align::kRight}});
  for (const auto& share : shares) {
    if (share.is_compute()) continue;
    table.add({share.kind, "over " + levels_text(share.digits, machine, digits),
               fmt::format("{} {}", share.count, share.count == 1 ? "time" : "times"),
               format_bytes(share.bytes.value), format_seconds(share.serialized.value),
               format_seconds(share.exposed.value) + " exposed"});
  }
  return table.to_text();
}

}  // namespace tandem::report
