#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"
#include "strategies/strategies.h"

namespace tandem::strategies {

namespace {

// Returns, by node, whether it depends on weights and constants alone.
std::vector<bool> find_parameters(const graph::Graph& model) {
  std::vector<bool> out(model.size());
  for (auto id : model.ids()) {
    const auto& op = model.node(id).op;
    const auto inputs = model.inputs(id);
    out[id.index()] = op.is(ops::kWeight) || op.is(ops::kConstant) ||
                      (!inputs.empty() && std::ranges::all_of(inputs, [&](graph::NodeId i) {
                        return out[i.index()];
                      }));
  }
  return out;
}

// Returns, by node, whether it only serves to compute the loss from the logits. The logits come
// from the last operator with weights.
std::vector<bool> find_loss_nodes(const graph::Graph& model) {
  const auto parameter = find_parameters(model);
  std::vector<bool> out(model.size());
  std::vector<bool> used(model.size());
  std::vector<bool> used_elsewhere(model.size());
  for (std::size_t n = model.size(); n-- > 0;) {
    const graph::NodeId id(n);
    const auto& node = model.node(id);
    const auto inputs = model.inputs(id);
    const bool has_weights =
        std::ranges::any_of(inputs, [&](graph::NodeId i) { return parameter[i.index()]; });
    const bool is_loss = node.type.shape.rank() == 0;
    const bool serves_loss = used[n] && !used_elsewhere[n] && !has_weights;
    out[n] = node.op.role() == ops::Role::kCompute && (is_loss || serves_loss);
    for (auto i : inputs) {
      used[i.index()] = true;
      if (!out[n]) used_elsewhere[i.index()] = true;
    }
  }
  return out;
}

}  // namespace

Made make_megatron(const Problem& problem, const MegatronParts& parts) {
  if ((parts.sequence_parallel || parts.context != 0) && !problem.has_sequence()) {
    return Refusal{fmt::format("{} requires a sequence, but {} has none",
                               parts.sequence_parallel ? "sp" : "cp", problem.model.name()),
                   ""};
  }
  const auto data = problem.digits.all() & ~(parts.tensor | parts.context | parts.ranks);
  const OperatorDigits job{.data = data,
                           .sequence = parts.context,
                           .split = parts.tensor,
                           .rest = parts.sequence_parallel ? Rest::kSequence : Rest::kRedundant,
                           .stored = parts.stored ? data | parts.context : 0};
  std::vector<OperatorDigits> jobs(problem.model.size(), job);
  // The loss is sharded, too; otherwise every device would need all logits.
  const auto loss = find_loss_nodes(problem.model);
  for (std::size_t n = 0; n < jobs.size(); ++n) {
    if (loss[n]) jobs[n].rest = parts.whole_loss ? Rest::kRedundant : Rest::kSequence;
  }
  return spread(problem, jobs);
}

}  // namespace tandem::strategies
