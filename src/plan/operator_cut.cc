#include "plan/operator_cut.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/hashes.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "rewrite/collection.h"
#include "rewrite/derivation.h"
#include "rewrite/rule_set.h"

namespace tandem::plan {

namespace {

using graph::NodeId;
using machine::Digits;
using machine::DigitUse;
using machine::NodeLayout;
using rewrite::Draft;
using rewrite::Rule;
using rewrite::Slot;

// Returns the rules that partition one operator of this kind, with choices.
const std::vector<Rule>& find_cutting_rules(const ops::OpSpec& spec) {
  static const auto all = [] {
    std::map<const ops::OpSpec*, std::vector<Rule>> out;
    for (auto& rule : rewrite::list_usable_rules()) {
      if (rule.choices.empty() || rule.source.outputs.size() != 1) continue;
      if (rule.source.operator_count() != 1) continue;
      out[rule.source.nodes[rule.source.outputs[0]].spec].push_back(std::move(rule));
    }
    return out;
  }();
  static const std::vector<Rule> none;
  const auto at = all.find(&spec);
  return at == all.end() ? none : at->second;
}

// Returns the uses that need a rule, each of them once. A factor that precedes another one in some
// dimension comes first.
std::vector<DigitUse> list_cutting_uses(const NodeLayout& layout, const Digits& digits) {
  std::vector<DigitUse> out;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const auto use = layout.uses[i];
    const bool cuts = (use.is_factor() || use.is_through()) && digits[i].size > 1;
    if (cuts && std::ranges::find(out, use) == out.end()) out.push_back(use);
  }
  return out;
}

std::int64_t compute_degree(const NodeLayout& layout, const Digits& digits, DigitUse use) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (layout.uses[i] == use) out *= digits[i].size;
  }
  return out;
}

// Returns a graph of the operator alone, on whole operands.
graph::Graph isolate_operator(const graph::Graph& pcg, NodeId id) {
  graph::GraphBuilder builder("alone");
  std::vector<NodeId> inputs;
  for (auto i : pcg.inputs(id)) {
    const auto& type = pcg.node(i).type;
    inputs.push_back(builder.input("", ParallelShape(type.shape.sizes), type.dtype,
                                   is_integer(type.dtype) ? 2 : 0));
  }
  const auto result = builder.add(pcg.node(id).op, inputs);
  return builder.finish({result});
}

// Rewrites an operator, one factor at a time.
class Cutter {
 public:
  Cutter(const graph::Graph& pcg, NodeId id, const Digits& digits)
      : op_(pcg.node(id).op), signature_(get_node_signature(pcg, id)), digits_(digits) {
    for (auto i : pcg.inputs(id)) sizes_.push_back(pcg.node(i).type.shape.sizes);
  }

  std::optional<RuleSteps> run(const graph::Graph& graph, const NodeLayout& layout) {
    const auto uses = list_cutting_uses(layout, digits_);
    std::vector<std::int64_t> degrees;
    degrees.reserve(uses.size());
    for (auto use : uses) degrees.push_back(compute_degree(layout, digits_, use));
    const rewrite::RuleSet set(find_cutting_rules(op_.spec()), dictionary_, {.degrees = degrees});
    auto draft = Draft::from_graph(graph, dictionary_);
    RuleSteps out;
    NodeLayout now;
    for (auto use : uses) {
      for (std::size_t i = 0; i < digits_.count(); ++i) {
        if (layout.uses[i] == use) now.uses[i] = use;
      }
      const auto match = cut(draft, now, set);
      if (!match) return std::nullopt;
      const auto& rule = set.rules()[match->rule];
      const auto* first = match->choices.begin();
      out.push_back({rule.name, 0, {first, first + rule.choices.size()}});
    }
    return out;
  }

 private:
  [[nodiscard]] Slot find_operator_slot(const Draft& draft) const {
    const auto is_it = [&](Slot slot) {
      return dictionary_.op(draft.node(slot).op).role() == ops::Role::kCompute;
    };
    return *std::ranges::find_if(draft.order(), is_it);
  }

  // Applies the first rule that gives the operands the shapes of `layout`. Returns its match.
  std::optional<rewrite::Match> cut(Draft& draft, const NodeLayout& layout,
                                    const rewrite::RuleSet& rules) const {
    std::vector<rewrite::Match> matches;
    rules.match_single(draft, find_operator_slot(draft), matches);
    std::ranges::sort(matches);
    std::vector<Slot> changed;
    for (const auto& match : matches) {
      auto next = rules.apply(draft, match, changed);
      if (!next || !has_operand_shapes(*next, layout)) continue;
      draft = std::move(*next);
      return match;
    }
    return std::nullopt;
  }

  // Returns whether the operator in `draft` has the operand shapes of `layout`.
  [[nodiscard]] bool has_operand_shapes(const Draft& draft, const NodeLayout& layout) const {
    const auto slot = find_operator_slot(draft);
    if (dictionary_.op(draft.node(slot).op) != op_) return false;
    const auto inputs = draft.inputs(slot);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto wanted = compute_parallel_shape(
          compute_input_layout(signature_, layout, digits_.count(), i), sizes_[i], digits_);
      if (dictionary_.type(draft.node(inputs[i]).type).shape != wanted) return false;
    }
    return true;
  }

  ops::Op op_;
  const ops::Signature& signature_;
  const Digits& digits_;
  std::vector<Shape> sizes_;  // by operand
  rewrite::Dictionary dictionary_;
};

NodeId operator_in(const graph::Graph& graph) {
  auto at = graph.outputs()[0];
  while (graph.node(at).op.role() == ops::Role::kParallel) at = graph.inputs(at)[0];
  return at;
}

// Returns the chain from the nearest compute or source node up to `top`, innermost first.
Chain collect_chain(const graph::Graph& graph, NodeId top) {
  Chain out;
  for (; graph.node(top).op.role() == ops::Role::kParallel; top = graph.inputs(top)[0]) {
    out.push_back(to_chain_link(graph.node(top).op));
  }
  std::ranges::reverse(out);
  return out;
}

}  // namespace

bool is_cut(const NodeLayout& layout, const Digits& digits) {
  return !list_cutting_uses(layout, digits).empty();
}

std::optional<RuleSteps> find_cutting_steps(const graph::Graph& pcg, NodeId id,
                                            const NodeLayout& layout, const Digits& digits) {
  return Cutter(pcg, id, digits).run(isolate_operator(pcg, id), layout);
}

OperatorCut replay_cut(const graph::Graph& pcg, NodeId id, const RuleSteps& steps) {
  auto graph = isolate_operator(pcg, id);
  for (const auto& step : steps) {
    const auto hashes = graph::hash_nodes(graph, graph::HashKind::kIdentity);
    const auto place = hashes[operator_in(graph).index()];
    graph = rewrite::apply_step(graph, {step.rule, {place}, step.choices}, find_usable_rule);
  }
  const auto at = operator_in(graph);
  if (graph.node(at).op != pcg.node(id).op || graph.inputs(at).size() != pcg.inputs(id).size()) {
    throw UserError("derivation", pcg.node(id).name, "the steps turn it into another operator");
  }
  OperatorCut out;
  out.result = graph.node(at).type.shape;
  out.merge = collect_chain(graph, graph.outputs()[0]);
  for (auto operand : graph.inputs(at)) {
    out.operands.push_back(graph.node(operand).type.shape);
    out.splits.push_back(collect_chain(graph, operand));
  }
  return out;
}

}  // namespace tandem::plan
