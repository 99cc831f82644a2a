#include "plan/ways.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"

namespace tandem::plan {

namespace {

const CutInCopies* find(const CutOperators& cuts, graph::NodeId id) {
  const auto at = cuts.find(id);
  return at == cuts.end() ? nullptr : at->second;
}

}  // namespace

std::vector<Way> ways_of(const graph::Graph& pcg) {
  std::vector<Way> out;
  for (auto id : pcg.ids()) {
    if (pcg.node(id).op.role() != ops::Role::kCompute) continue;
    const auto inputs = pcg.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Way way{.from = inputs[i], .to = id, .operand = i, .chain = {}};
      while (pcg.node(way.from).op.role() == ops::Role::kParallel) {
        way.chain.push_back(link_of(pcg.node(way.from).op));
        way.from = pcg.inputs(way.from)[0];
      }
      std::ranges::reverse(way.chain);
      out.push_back(std::move(way));
    }
  }
  return out;
}

std::string place_of(const graph::Graph& pcg, const Way& way) {
  return fmt::format("{}:{}", pcg.node(way.to).name, way.operand);
}

std::optional<Chain> whole_between(const graph::Graph& pcg, const Way& way,
                                   const CutOperators& cuts) {
  Chain out;
  if (const auto* from = find(cuts, way.from)) {
    if (from->copies > 1) out.push_back({&ops::kUnreplicate, -1, from->copies});
    out.insert(out.end(), from->cut.merge.begin(), from->cut.merge.end());
  } else {
    out = merging(pcg.node(way.from).type.shape);
  }
  if (const auto* to = find(cuts, way.to)) {
    const auto& split = to->cut.splits[way.operand];
    out.insert(out.end(), split.begin(), split.end());
    if (to->copies > 1) out.push_back({&ops::kReplicate, -1, to->copies});
    return out;
  }
  const auto operand = pcg.inputs(way.to)[way.operand];
  const auto split = splitting(pcg.node(operand).type.shape);
  if (!split) return std::nullopt;
  out.insert(out.end(), split->begin(), split->end());
  return out;
}

}  // namespace tandem::plan
