#include "search/storage.h"

#include "strategies/storage.h"

namespace tandem::search {

namespace {

bool is_looked_up_in(const graph::Graph& graph, graph::NodeId weight, graph::NodeId reader) {
  const auto table = graph.node(reader).op.spec().row_sparse_operand;
  return table && graph.inputs(reader)[*table] == weight;
}

}  // namespace

std::vector<machine::Layout> used_layouts(const strategies::Problem& problem,
                                          const std::vector<plan::Choice>& choices) {
  const auto& model = problem.model;
  std::vector<machine::Layout> out(model.size());
  for (auto id : model.ids()) {
    const auto inputs = model.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto& layout = out[inputs[i].index()];
      if (!is_weight(model.node(inputs[i])) || layout.count() > 0) continue;
      layout = input_layout(problem.nodes[id.index()].signature, choices[id.index()].node,
                            problem.digits.count(), i);
    }
  }
  return out;
}

void store_otherwise(Contest& contest, const Candidate& plan) {
  if (plan.schedule.stages > 1 || plan.schedule.micro_batches > 1) return;
  const auto& graph = plan.rewritten ? plan.rewritten->graph : contest.model();
  const auto& digits = contest.digits();
  const strategies::Problem problem(graph, digits);
  const auto used = used_layouts(problem, plan.choices);
  const auto consumers = graph.consumers();
  auto out = plan;
  out.name = "search";
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    const auto& layout = used[id.index()];
    if (!is_weight(node) || !is_trained(node) || layout.count() == 0) continue;
    const auto& readers = consumers[id.index()];
    const bool in_parts = readers.size() == 1 && !is_looked_up_in(graph, id, readers[0]);
    out.choices[id.index()].source =
        in_parts ? strategies::stored_in_parts(layout, node.type.shape.sizes, digits.all(), digits)
                 : layout;
  }
  if (out.choices != plan.choices) contest.enter({out});
}

}  // namespace tandem::search
