#include "strategies/strategies.h"

namespace tandem::strategies {

namespace {

using graph::NodeId;

// Lays out split operators over all digits, the others along the batch. Split operators without
// weights use the batch if they cannot stay split; embedding tables use Rest::kIdle.
Made split_layers(const Problem& problem, const std::vector<bool>& is_split) {
  const auto all = problem.digits.all();
  std::vector<OperatorDigits> jobs(problem.model.size(), {.data = all});
  for (auto id : problem.model.ids()) {
    if (!is_split[id.index()]) continue;
    jobs[id.index()] = {.split = all, .start = Start::kParts};
    if (!problem.has_own_weights[id.index()]) jobs[id.index()].rest = Rest::kBatch;
    if (problem.is_table(id)) jobs[id.index()].rest = Rest::kIdle;
  }
  return spread(problem, jobs);
}

// Returns the operator's activation if it has exactly one.
std::optional<NodeId> find_only_activation(const Problem& problem, NodeId id) {
  const auto inputs = problem.model.inputs(id);
  return inputs.size() == 1 ? std::optional(inputs[0]) : std::nullopt;
}

}  // namespace

Made make_expert(const Problem& problem) {
  std::vector<bool> is_split(problem.model.size());
  for (auto id : problem.model.ids()) {
    const auto& node = problem.model.node(id);
    if (node.op.role() != ops::Role::kCompute) continue;
    // An activation function belongs to the layer before it.
    const auto before = find_only_activation(problem, id);
    is_split[id.index()] = problem.has_own_weights[id.index()]
                               ? problem.weight_bytes(id) > node.type.whole_bytes()
                               : before && is_split[before->index()];
  }
  return split_layers(problem, is_split);
}

Made make_dlrm_hybrid(const Problem& problem) {
  std::vector<bool> is_split(problem.model.size());
  for (auto id : problem.model.ids()) is_split[id.index()] = problem.is_table(id);
  return split_layers(problem, is_split);
}

}  // namespace tandem::strategies
