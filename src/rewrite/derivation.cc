#include "rewrite/derivation.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/stop.h"
#include "graph/hashes.h"
#include "graph/text.h"
#include "rewrite/rule_text.h"

namespace tandem::rewrite {

namespace {

using graph::NodeId;

// One step of a replay. Binds the rule's source in the graph, then rebuilds the graph with the
// target in its place. Nodes are identified by the hash of what they compute, so equal nodes are
// one.
class Replay {
 public:
  Replay(const graph::Graph& graph, const Rule& rule, const DerivationStep& step)
      : graph_(graph),
        rule_(rule),
        step_(step),
        hashes_(graph::hash_nodes(graph, graph::HashKind::kIdentity)),
        tensors_(rule.tensors.size()),
        types_(rule.tensors.size()),
        symbols_(rule.symbols.size()) {}

  graph::Graph run() {
    if (step_.place.size() != rule_.source.outputs.size() ||
        step_.choices.size() != rule_.choices.size()) {
      fail("has a different number of places or choices than the rule");
    }
    for (std::size_t c = 0; c < step_.choices.size(); ++c) {
      symbols_[rule_.choices[c]] = step_.choices[c];
    }
    for (std::size_t o = 0; o < step_.place.size(); ++o) {
      outputs_.push_back(find_node(step_.place[o]));
      bind(rule_.source.outputs[o], outputs_[o]);
    }
    check_conditions();
    return build();
  }

 private:
  [[noreturn]] static void fail(const std::string& message) {
    throw UserError("derivation", "", message);
  }

  [[nodiscard]] NodeId find_node(Hash place) const {
    const auto at = std::ranges::find(hashes_, place);
    if (at == hashes_.end()) fail(fmt::format("no node computes {:016x}", place));
    return NodeId(static_cast<std::size_t>(at - hashes_.begin()));
  }

  [[nodiscard]] Bindings bindings() const { return {types_, symbols_}; }

  // --- The source -------------------------------------------------------------------------------

  void bind(PatternId id, NodeId node) {
    const auto& pattern = rule_.source.nodes[id];
    if (pattern.is_variable()) {
      auto& bound = tensors_[pattern.variable];
      if (bound && hashes_[bound->index()] != hashes_[node.index()]) {
        fail(fmt::format("?{} would match two different tensors", rule_.tensors[pattern.variable]));
      }
      bound = node;
      types_[pattern.variable] = &graph_.node(node).type;
      return;
    }
    const auto& op = graph_.node(node).op;
    const auto inputs = graph_.inputs(node);
    if (!op.is(*pattern.spec) || inputs.size() != pattern.inputs.size()) {
      fail(fmt::format("%{} does not match {} of the rule", graph_.node(node).name,
                       pattern.spec->name));
    }
    bind_attributes(pattern, op);
    for (std::size_t i = 0; i < inputs.size(); ++i) bind(pattern.inputs[i], inputs[i]);
  }

  // Binds symbols that are a whole attribute or an element of a list. All attributes are compared
  // later, in check_conditions(), once every symbol is bound.
  void bind_attributes(const PatternNode& pattern, const ops::Op& op) {
    const auto values = parse_attribute_values(op);
    for (std::size_t a = 0; a < values.size(); ++a) {
      const auto& value = values[a];
      const auto& expression = pattern.attributes[a];
      if (expression.operation == Operation::kSymbol) bind_symbol(expression.variables[0], value);
      const auto* items = std::get_if<std::vector<std::int64_t>>(&value);
      if (expression.operation == Operation::kList && items != nullptr &&
          items->size() == expression.operands.size()) {
        for (std::size_t i = 0; i < items->size(); ++i) {
          const auto& item = expression.operands[i];
          if (item.operation == Operation::kSymbol) bind_symbol(item.variables[0], (*items)[i]);
        }
      }
      expected_.emplace_back(&expression, value);
    }
  }

  void bind_symbol(std::uint16_t symbol, const Value& value) {
    if (symbols_[symbol] && *symbols_[symbol] != value) {
      fail(fmt::format("?{} would be both {} and {}", rule_.symbols[symbol],
                       rewrite::to_text(*symbols_[symbol]), rewrite::to_text(value)));
    }
    symbols_[symbol] = value;
  }

  void check_conditions() const {
    for (const auto& [expression, value] : expected_) {
      const auto computed = evaluate(*expression, bindings());
      if (!computed || *computed != value) {
        fail(fmt::format("an attribute is {}, but the source of the rule has {}",
                         rewrite::to_text(value), rewrite::to_text(rule_, *expression)));
      }
    }
    for (const auto& condition : rule_.conditions) {
      if (!holds(condition, bindings())) {
        fail(fmt::format("the condition {} does not hold", rewrite::to_text(rule_, condition)));
      }
    }
  }

  // --- The graph after it -----------------------------------------------------------------------

  // kCurrent: a node of the graph or its replacement. kOriginal: a node of the graph as it was.
  // kTarget: a node of the target. The target reads original tensors; all other nodes read current
  // ones.
  enum class ReplayItemKind : std::uint8_t { kCurrent, kOriginal, kTarget };
  struct ReplayItem {
    ReplayItemKind kind = ReplayItemKind::kCurrent;
    std::size_t index = 0;
  };
  struct ReplayItemProgress {
    enum class ReplayItemState : std::uint8_t { kNew, kOpen, kDone } state = ReplayItemState::kNew;
    NodeId image = {};
  };

  // Returns the items that `item` is computed from or stands for.
  [[nodiscard]] std::vector<ReplayItem> list_dependencies(const ReplayItem& item) const {
    std::vector<ReplayItem> out;
    if (item.kind == ReplayItemKind::kTarget) {
      const auto& node = rule_.target.nodes[item.index];
      if (node.is_variable())
        return {{ReplayItemKind::kOriginal, tensors_[node.variable]->index()}};
      for (auto input : node.inputs) out.push_back({ReplayItemKind::kTarget, input});
      return out;
    }
    if (item.kind == ReplayItemKind::kCurrent) return {find_replacement(item.index)};
    for (auto input : graph_.inputs(NodeId(item.index))) {
      out.push_back({ReplayItemKind::kCurrent, input.index()});
    }
    return out;
  }

  [[nodiscard]] ReplayItem find_replacement(std::size_t node) const {
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      if (hashes_[outputs_[o].index()] == hashes_[node]) {
        return {ReplayItemKind::kTarget, rule_.target.outputs[o]};
      }
    }
    return {ReplayItemKind::kOriginal, node};
  }

  graph::Graph build() {
    graph::GraphBuilder builder(graph_.name());
    for (auto id : graph_.ids()) taken_.insert(graph_.node(id).name);
    std::vector<ReplayItemProgress> current(graph_.size());
    std::vector<ReplayItemProgress> original(graph_.size());
    std::vector<ReplayItemProgress> made(rule_.target.nodes.size());
    const auto progress = [&](const ReplayItem& item) -> ReplayItemProgress& {
      if (item.kind == ReplayItemKind::kTarget) return made[item.index];
      return (item.kind == ReplayItemKind::kCurrent ? current : original)[item.index];
    };
    for (auto output : graph_.outputs()) {
      std::vector<ReplayItem> stack{{ReplayItemKind::kCurrent, output.index()}};
      while (!stack.empty()) {
        const auto item = stack.back();
        auto& at = progress(item);
        if (at.state == ReplayItemProgress::ReplayItemState::kDone) {
          stack.pop_back();
          continue;
        }
        bool ready = true;
        at.state = ReplayItemProgress::ReplayItemState::kOpen;
        std::vector<NodeId> images;
        for (const auto& part : list_dependencies(item)) {
          const auto& below = progress(part);
          if (below.state == ReplayItemProgress::ReplayItemState::kDone) {
            images.push_back(below.image);
            continue;
          }
          if (below.state == ReplayItemProgress::ReplayItemState::kOpen)
            fail("a node would depend on itself");
          ready = false;
          stack.push_back(part);
        }
        if (!ready) continue;
        at.image = add_image(builder, item, images);
        at.state = ReplayItemProgress::ReplayItemState::kDone;
        stack.pop_back();
      }
    }
    check_types(builder, made);
    std::vector<NodeId> results;
    for (auto output : graph_.outputs()) results.push_back(current[output.index()].image);
    return builder.finish(std::move(results));
  }

  NodeId add_image(graph::GraphBuilder& builder, const ReplayItem& item,
                   const std::vector<NodeId>& images) {
    if (item.kind == ReplayItemKind::kCurrent) return images[0];
    if (item.kind == ReplayItemKind::kOriginal)
      return builder.copy_node(graph_, NodeId(item.index), images);
    const auto& node = rule_.target.nodes[item.index];
    if (node.is_variable()) return images[0];
    ops::AttributeList list;
    for (std::size_t a = 0; a < node.attributes.size(); ++a) {
      const auto value = evaluate(node.attributes[a], bindings());
      if (!value) {
        fail(fmt::format("{} has no value", rewrite::to_text(rule_, node.attributes[a])));
      }
      list.emplace_back(node.spec->attributes[a].first, rewrite::to_text(*value));
    }
    auto name = fmt::format("{}.{}", node.spec->name, taken_.size());
    while (!taken_.insert(name).second) name += "+";
    return builder.add(ops::parse_op(*node.spec, list), images, name);
  }

  void check_types(const graph::GraphBuilder& builder,
                   const std::vector<ReplayItemProgress>& made) const {
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const auto& before = graph_.node(outputs_[o]).type;
      const auto& at = made[rule_.target.outputs[o]];
      if (at.state != ReplayItemProgress::ReplayItemState::kDone) continue;  // nothing needs it
      const auto& after = builder.node(at.image).type;
      if (before == after) continue;
      fail(fmt::format("the type would become {} instead of {}", graph::format_type(after),
                       graph::format_type(before)));
    }
  }

  const graph::Graph& graph_;
  const Rule& rule_;
  const DerivationStep& step_;
  std::vector<Hash> hashes_;
  std::vector<NodeId> outputs_;
  std::vector<std::optional<NodeId>> tensors_;
  std::vector<const TensorType*> types_;
  std::vector<std::optional<Value>> symbols_;
  std::vector<std::pair<const Expression*, Value>> expected_;
  std::unordered_set<std::string> taken_;
};

constexpr std::string_view kReversed = "-reversed";

// Returns the rule from its target to its source. A step chooses the symbols that the target lacks.
// For example, a pair of operators that a rule cancels can be inserted anywhere.
Rule reverse_with_choices(Rule rule) {
  std::swap(rule.source, rule.target);
  rule.choices.clear();
  std::vector<bool> read(rule.symbols.size());
  std::vector<bool> bound(rule.tensors.size());
  for (const auto& node : rule.source.nodes) {
    if (node.is_variable()) bound[node.variable] = true;
    for (const auto& attribute : node.attributes) {
      if (attribute.operation == Operation::kSymbol) read[attribute.variables[0]] = true;
    }
  }
  for (std::size_t s = 0; s < read.size(); ++s) {
    if (!read[s]) rule.choices.push_back(static_cast<std::uint16_t>(s));
  }
  for (const auto& node : rule.target.nodes) {
    if (!node.is_variable() || bound[node.variable]) continue;
    throw UserError("derivation", rule.name,
                    "cannot be reversed: its target does not use all tensors");
  }
  return rule;
}

// Returns the rule that `step` applies.
Rule find_rule(const DerivationStep& step, const std::string& where, const FindRule& find) {
  if (const auto* rule = find(step.rule)) return *rule;
  const std::string_view name = step.rule;
  if (name.ends_with(kReversed)) {
    const auto* rule = find(std::string(name.substr(0, name.size() - kReversed.size())));
    if (rule != nullptr) return reverse_with_choices(*rule);
  }
  throw UserError("derivation", where, "unknown rule");
}

}  // namespace

DerivationStep make_derivation_step(const RuleSet& rules, const Match& match, const Draft& before,
                                    const Draft& after) {
  const auto& rule = rules.rules()[match.rule];
  DerivationStep out{rule.name, {}, {}, before.hash(), after.hash()};
  for (std::size_t o = 0; o < rule.source.outputs.size(); ++o) {
    out.place.push_back(before.node(match.outputs[o]).hash);
  }
  for (std::size_t c = 0; c < rule.choices.size(); ++c) out.choices.push_back(match.choices[c]);
  return out;
}

FindRule make_rule_finder(const std::vector<Rule>& rules) {
  return [&rules](const std::string& name) {
    const auto at = std::ranges::find(rules, name, &Rule::name);
    return at == rules.end() ? nullptr : &*at;
  };
}

graph::Graph apply_step(const graph::Graph& graph, const DerivationStep& step,
                        const FindRule& find) {
  return Replay(graph, find_rule(step, step.rule, find), step).run();
}

graph::Graph replay(const graph::Graph& graph, const Derivation& derivation, const FindRule& find) {
  auto out = graph;
  for (std::size_t s = 0; s < derivation.size(); ++s) {
    throw_if_stopped();
    const auto& step = derivation[s];
    const auto where = fmt::format("step {} ({})", s + 1, step.rule);
    const auto check_hash = [&](std::string_view when, Hash expected) {
      if (out.identity_hash() == expected) return;
      throw UserError("derivation", where,
                      fmt::format("the graph {} it has hash {:016x} instead of {:016x}", when,
                                  out.identity_hash(), expected));
    };
    const auto rule = find_rule(step, where, find);
    check_hash("before", step.before);
    try {
      out = Replay(out, rule, step).run();
    } catch (const UserError& e) {
      throw UserError("derivation", where, e.where.empty() ? e.message : e.where + ": " + e.message,
                      e.hint);
    }
    check_hash("after", step.after);
  }
  return out;
}

}  // namespace tandem::rewrite
