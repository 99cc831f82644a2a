#include "search/neighbours/matmul_splits.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ops/signature.h"
#include "rewrite/rule_text.h"
#include "search/limits.h"
#include "search/neighbours/rewrite_moves.h"
#include "search/neighbours/rewrite_ranking.h"

namespace tandem::search {

namespace {

using Kinds = std::set<const ops::OpSpec*>;

Kinds find_matmul_kinds(const graph::Graph& graph) {
  Kinds out;
  for (auto id : graph.ids()) {
    const auto& node = graph.node(id);
    if (node.op.role() != ops::Role::kCompute || out.contains(&node.op.spec())) continue;
    if (graph::get_node_signature(graph, id).contraction) out.insert(&node.op.spec());
  }
  return out;
}

// Returns the smallest number of tensors that a node of that kind needs.
std::size_t count_fewest_needed(const rewrite::Side& side, const ops::OpSpec* kind) {
  auto out = std::numeric_limits<std::size_t>::max();
  std::vector<std::set<std::uint16_t>> needs;
  for (const auto& node : side.nodes) {
    auto& own = needs.emplace_back();
    if (node.is_variable()) own.insert(node.variable);
    for (auto i : node.inputs) own.insert(needs[i].begin(), needs[i].end());
    if (node.spec == kind && kind != nullptr) out = std::min(out, own.size());
  }
  return out;
}

bool lets_matmul_start_earlier(const rewrite::Rule& rule, const Kinds& kinds) {
  return std::ranges::any_of(kinds, [&](const ops::OpSpec* kind) {
    const auto before = count_fewest_needed(rule.source, kind);
    return before != std::numeric_limits<std::size_t>::max() &&
           count_fewest_needed(rule.target, kind) < before;
  });
}

// Returns the graph in the model's order, with each new node right before its first reader. Devices
// execute operators in this order. A matmul must not come after the concatenation that the next
// matmul waits for.
graph::Graph reorder_like(const graph::Graph& graph, const graph::Graph& model) {
  graph::GraphBuilder builder(graph.name());
  std::map<std::string, graph::NodeId> by_name;
  for (auto id : graph.ids()) by_name.emplace(graph.node(id).name, id);
  std::vector<std::optional<graph::NodeId>> placed(graph.size());
  const std::function<void(graph::NodeId)> place = [&](graph::NodeId id) {
    if (placed[id.index()]) return;
    std::vector<graph::NodeId> operands;
    for (auto input : graph.inputs(id)) {
      place(input);
      operands.push_back(placed[input.index()].value());
    }
    placed[id.index()] = builder.copy_node(graph, id, operands);
  };
  for (auto id : model.ids()) {
    const auto at = by_name.find(model.node(id).name);
    if (at != by_name.end()) place(at->second);
  }
  std::vector<graph::NodeId> outputs;
  for (auto id : graph.outputs()) {
    place(id);
    outputs.push_back(placed[id.index()].value());
  }
  return builder.finish(std::move(outputs));
}

// A sequence of moves from one graph, with the derivation that proves it.
class Steps {
 public:
  Steps(const graph::Graph& first, const rewrite::RuleSet& rules, rewrite::Dictionary& dictionary)
      : first_(first), rules_(rules), dictionary_(dictionary), at_(first, rules, dictionary) {}

  [[nodiscard]] std::vector<Move> list_moves() const { return at_.list_moves(); }

  bool apply(const Move& move) {
    auto next = at_.apply(move, &steps_);
    if (!next) return false;
    at_ = std::move(*next);
    const auto text = to_text(rules_.rules()[move.rule]);
    if (std::ranges::find(texts_, text) == texts_.end()) texts_.push_back(text);
    return true;
  }

  // Applies the rule wherever it fits.
  void apply_everywhere(std::uint32_t rule) {
    for (int taken = 0; taken < limits::kMostRuleUses; ++taken) {
      const auto moves = at_.list_moves();
      if (std::ranges::none_of(moves, [&](const Move& m) { return m.rule == rule && apply(m); })) {
        return;
      }
    }
  }

  // Returns the rewritten graph. Its derivation continues that of `before`, which led to the first
  // graph.
  [[nodiscard]] std::shared_ptr<const Rewritten> make_rewritten(const Rewritten* before,
                                                                const graph::Graph& model) const {
    auto out = std::make_shared<Rewritten>();
    if (before != nullptr) *out = *before;
    out->derivation.insert(out->derivation.end(), steps_.begin(), steps_.end());
    for (const auto& text : texts_) {
      if (std::ranges::find(out->rules, text) == out->rules.end()) out->rules.push_back(text);
    }
    out->graph = reorder_like(at_.draft().to_graph(first_, dictionary_), model);
    return out;
  }

 private:
  const graph::Graph& first_;
  const rewrite::RuleSet& rules_;
  const rewrite::Dictionary& dictionary_;
  RewriteState at_;
  rewrite::Derivation steps_;
  std::vector<std::string> texts_;
};

// Returns the rules that the derivation uses, in the order of their first use.
std::vector<std::uint32_t> list_used_rules(const Rewritten& rewritten,
                                           const rewrite::RuleSet& rules) {
  std::vector<std::uint32_t> out;
  for (const auto& step : rewritten.derivation) {
    const auto at = std::ranges::find(rules.rules(), step.rule, &rewrite::Rule::name);
    const auto rule = static_cast<std::uint32_t>(at - rules.rules().begin());
    if (at != rules.rules().end() && std::ranges::find(out, rule) == out.end()) out.push_back(rule);
  }
  return out;
}

}  // namespace

std::vector<std::shared_ptr<const Rewritten>> list_matmul_splits(
    const graph::Graph& model, const std::shared_ptr<const Rewritten>& from) {
  const auto kinds = find_matmul_kinds(model);
  rewrite::Dictionary dictionary;
  const rewrite::RuleSet rules(list_algebraic_rules(), dictionary, {});
  std::vector<std::shared_ptr<const Rewritten>> out;
  const auto add = [&](const std::shared_ptr<const Rewritten>& made) {
    const auto is_it = [&](const auto& other) {
      return other->graph.identity_hash() == made->graph.identity_hash();
    };
    if (std::ranges::none_of(out, is_it)) out.push_back(made);
  };
  const auto add_from = [&](const graph::Graph& graph, const Rewritten* before,
                            const std::vector<std::uint32_t>& then) {
    const Steps first(graph, rules, dictionary);
    for (const auto& move : first.list_moves()) {
      if (!lets_matmul_start_earlier(rules.rules()[move.rule], kinds)) continue;
      auto steps = first;
      if (!steps.apply(move)) continue;
      for (auto rule : then) steps.apply_everywhere(rule);
      add(steps.make_rewritten(before, model));
    }
  };
  if (from) add_from(from->graph, from.get(), {});
  add_from(model, nullptr, from ? list_used_rules(*from, rules) : std::vector<std::uint32_t>{});
  return out;
}

}  // namespace tandem::search
