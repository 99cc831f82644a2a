#include "search/neighbours/weight_storage.h"

#include <algorithm>
#include <map>

#include "strategies/weight_sharding.h"

namespace tandem::search {

namespace {

bool is_looked_up_in(const graph::Graph& graph, graph::NodeId weight, graph::NodeId reader) {
  const auto table = graph.node(reader).op.spec().row_sparse_operand;
  return table && graph.inputs(reader)[*table] == weight;
}

// Returns the digits of every non-empty set of levels.
std::vector<machine::DigitMask> list_level_sets(const machine::Digits& digits) {
  std::map<std::size_t, machine::DigitMask> of_level;
  for (std::size_t i = 0; i < digits.count(); ++i) of_level[digits[i].level] |= machine::bit(i);
  std::vector<machine::DigitMask> out = {0};
  for (const auto& [level, mask] : of_level) {
    const auto before = out.size();
    for (std::size_t i = 0; i < before; ++i) out.push_back(out[i] | mask);
  }
  out.erase(out.begin());
  return out;
}

}  // namespace

std::vector<machine::Layout> find_used_layouts(const strategies::Problem& problem,
                                               const std::vector<plan::Choice>& choices) {
  const auto& model = problem.model;
  std::vector<machine::Layout> out(model.size());
  for (auto id : model.ids()) {
    const auto inputs = model.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto& layout = out[inputs[i].index()];
      if (!is_weight(model.node(inputs[i])) || layout.count() > 0) continue;
      layout = compute_input_layout(problem.nodes[id.index()].signature, choices[id.index()].node,
                                    problem.digits.count(), i);
    }
  }
  return out;
}

void enter_storage_variants(CandidatePool& pool, const Candidate& plan) {
  if (plan.schedule.stages > 1 || plan.schedule.micro_batches > 1) return;
  const auto& graph = plan.rewritten ? plan.rewritten->graph : pool.model();
  const auto& digits = pool.digits();
  const strategies::Problem problem(graph, digits);
  const auto used = find_used_layouts(problem, plan.choices);
  const auto consumers = graph.consumers();
  std::vector<Candidate> others;
  const auto add = [&](const Candidate& other) {
    const bool is_new =
        other.choices != plan.choices &&
        std::ranges::find(others, other.choices, &Candidate::choices) == others.end();
    if (is_new) others.push_back(other);
  };
  for (const auto over : list_level_sets(digits)) {
    auto out = plan;
    out.name = "search";
    for (auto id : graph.ids()) {
      const auto& node = graph.node(id);
      const auto& layout = used[id.index()];
      if (!is_weight(node) || !is_trained(node) || layout.count() == 0) continue;
      const auto& readers = consumers[id.index()];
      const bool in_parts = readers.size() == 1 && !is_looked_up_in(graph, id, readers[0]);
      out.choices[id.index()].source =
          in_parts ? strategies::shard_weight(layout, node.type.shape.sizes, over, digits) : layout;
    }
    add(out);
    for (auto id : graph.ids()) {
      if (is_weight(graph.node(id))) out.choices[id.index()].recompute = false;
    }
    add(out);
  }
  pool.enter_without_records(others);
}

}  // namespace tandem::search
