#include "plan/operand_paths.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"

namespace tandem::plan {

namespace {

const CutInCopies* find_cut(const CutOperators& cuts, graph::NodeId id) {
  const auto at = cuts.find(id);
  return at == cuts.end() ? nullptr : at->second;
}

}  // namespace

std::vector<OperandPath> list_operand_paths(const graph::Graph& pcg) {
  std::vector<OperandPath> out;
  for (auto id : pcg.ids()) {
    if (pcg.node(id).op.role() != ops::Role::kCompute) continue;
    const auto inputs = pcg.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      OperandPath way{.from = inputs[i], .to = id, .operand = i, .chain = {}};
      while (pcg.node(way.from).op.role() == ops::Role::kParallel) {
        way.chain.push_back(to_chain_link(pcg.node(way.from).op));
        way.from = pcg.inputs(way.from)[0];
      }
      std::ranges::reverse(way.chain);
      out.push_back(std::move(way));
    }
  }
  return out;
}

std::string format_place(const graph::Graph& pcg, const OperandPath& way) {
  return fmt::format("{}:{}", pcg.node(way.to).name, way.operand);
}

std::optional<Chain> make_unsimplified_chain(const graph::Graph& pcg, const OperandPath& way,
                                             const CutOperators& cuts) {
  Chain out;
  if (const auto* from = find_cut(cuts, way.from)) {
    if (from->replicas > 1) out.push_back({&ops::kUnreplicate, -1, from->replicas});
    out.insert(out.end(), from->cut.merge.begin(), from->cut.merge.end());
  } else {
    out = make_merging_chain(pcg.node(way.from).type.shape);
  }
  if (const auto* to = find_cut(cuts, way.to)) {
    const auto& split = to->cut.splits[way.operand];
    out.insert(out.end(), split.begin(), split.end());
    if (to->replicas > 1) out.push_back({&ops::kReplicate, -1, to->replicas});
    return out;
  }
  const auto operand = pcg.inputs(way.to)[way.operand];
  const auto split = make_splitting_chain(pcg.node(operand).type.shape);
  if (!split) return std::nullopt;
  out.insert(out.end(), split->begin(), split->end());
  return out;
}

}  // namespace tandem::plan
