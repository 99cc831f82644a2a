#include "unity/task_graph.h"

#include <algorithm>

#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::unity {

namespace {

using rewrite::Draft;
using rewrite::Slot;

bool is_trained_weight(const ops::Op& op) {
  return op.is(ops::kWeight) && !op.get<ops::Weight>().frozen;
}

}  // namespace

Hash TaskGraph::hash() const {
  Hash h = vertices.size();
  for (const auto& vertex : vertices) {
    h = hash_combine(h, vertex.kind);
    for (const auto& edge : vertex.in) {
      h = hash_combine(h, (Hash{edge.from} << 8U) | edge.operand);
    }
  }
  return h;
}

TaskGraph TaskGraphBuilder::build_for_piece(const Draft& draft,
                                            const std::optional<BorderInput>& border,
                                            bool has_border_output) {
  graph_ = {};
  std::optional<std::uint32_t> at;
  if (border) {
    for (auto slot : draft.order()) {
      const auto& node = draft.node(slot);
      if (!node.is_first || node.named_after != border->input) continue;
      at = 0;
      graph_.vertices.push_back(
          {placements_.find_or_add_tensor_kind(dictionary_.type(node.type)), {}, slot, 0});
    }
  }
  const auto result = add(draft, border, at);
  if (has_border_output) {
    const auto slot = draft.outputs()[0];
    graph_.vertices.push_back(
        {placements_.find_or_add_tensor_kind(dictionary_.type(draft.node(slot).type)),
         {{result, 0}},
         slot,
         0});
  }
  return std::move(graph_);
}

void TaskGraphBuilder::append(const Draft& draft, const std::optional<BorderInput>& border) {
  last_ = add(draft, border, border ? std::optional(last_) : std::nullopt);
  ++pieces_;
}

std::uint32_t TaskGraphBuilder::add(const Draft& draft, const std::optional<BorderInput>& border,
                                    std::optional<std::uint32_t> border_vertex) {
  vertex_.assign(draft.slot_count(), kNone);
  origin_.assign(draft.slot_count(), 0);
  has_gradient_.assign(draft.slot_count(), false);
  is_summed_.assign(draft.slot_count(), false);
  for (auto slot : draft.order()) {
    const auto& node = draft.node(slot);
    const auto& op = dictionary_.op(node.op);
    const auto inputs = draft.inputs(slot);
    const bool is_source = op.role() == ops::Role::kSource;
    const bool is_border =
        border && is_source && node.is_first && node.named_after == border->input;
    origin_[slot] = op.role() == ops::Role::kParallel ? origin_[inputs[0]] : slot;
    has_gradient_[slot] =
        is_border
            ? border->has_gradient
            : is_trained_weight(op) ||
                  std::ranges::any_of(inputs, [&](Slot input) { return has_gradient_[input]; });
    if (is_border && border_vertex) vertex_[slot] = *border_vertex;
    if (op.role() != ops::Role::kCompute) continue;
    TaskGraph::Vertex vertex{find_or_add_kind(draft, slot), {}, slot, pieces_};
    for (std::uint32_t i = 0; i < inputs.size(); ++i) {
      const auto from = vertex_[origin_[inputs[i]]];
      if (from != kNone) vertex.in.push_back({from, i});
    }
    vertex_[slot] = static_cast<std::uint32_t>(graph_.vertices.size());
    graph_.vertices.push_back(std::move(vertex));
  }
  return vertex_[origin_[draft.outputs()[0]]];
}

KindId TaskGraphBuilder::find_or_add_kind(const Draft& draft, Slot slot) {
  const auto inputs = draft.inputs(slot);
  ops::InputMask differentiated = 0;
  ops::InputMask trained = 0;
  Hash key = hash_combine(draft.node(slot).op.value, draft.node(slot).type.value);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto bit = ops::InputMask{1} << i;
    const auto origin = origin_[inputs[i]];
    key = hash_combine(key, draft.node(inputs[i]).type.value);
    if (has_gradient_[inputs[i]]) differentiated |= bit;
    if (!is_trained_weight(dictionary_.op(draft.node(origin).op)) || is_summed_[origin]) continue;
    is_summed_[origin] = true;
    trained |= bit;
  }
  key = hash_combine(hash_combine(key, differentiated), trained);
  const auto [at, fresh] = kinds_.try_emplace(key);
  if (!fresh) return at->second;
  Operator out{.op = dictionary_.op(draft.node(slot).op),
               .operands = {},
               .result = dictionary_.type(draft.node(slot).type),
               .differentiated = differentiated,
               .trained = trained};
  for (auto input : inputs) out.operands.push_back(dictionary_.type(draft.node(input).type));
  return at->second = placements_.find_or_add_kind(out);
}

}  // namespace tandem::unity
