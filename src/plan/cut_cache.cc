#include "plan/cut_cache.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::plan {

namespace {

// Returns whether a shape is partitioned or partial.
bool is_cut_type(const ParallelShape& shape) {
  return shape.partial > 1 || shape.degrees.count() > 1;
}

}  // namespace

bool is_whole(const graph::Graph& pcg, graph::NodeId id) {
  const auto& result = pcg.node(id).type.shape;
  return !is_cut_type(result) && std::ranges::all_of(pcg.inputs(id), [&](graph::NodeId i) {
    const auto& shape = pcg.node(i).type.shape;
    return !is_cut_type(shape) && shape.replicas == result.replicas;
  });
}

std::string make_operator_key(const graph::Graph& pcg, graph::NodeId id) {
  auto out = pcg.node(id).op.name() + " " + pcg.node(id).op.attribute_text();
  for (auto i : pcg.inputs(id)) out += " " + to_text(pcg.node(i).type.shape.sizes);
  return out;
}

const CutInCopies& CutCache::get_result(graph::NodeId id, const RuleSteps& steps,
                                        std::int64_t copies) {
  const auto key = fmt::format("{} {}\n{}", copies, make_operator_key(pcg_, id), to_text(steps));
  auto at = known_.find(key);
  if (at == known_.end()) {
    at = known_.emplace(key, CutInCopies{replay_cut(pcg_, id, steps), copies}).first;
  }
  return at->second;
}

}  // namespace tandem::plan
