#include "check/cuts.h"

#include <algorithm>
#include <map>
#include <optional>

#include "machine/node_layout.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "rewrite/collection.h"
#include "rewrite/rule_set.h"

namespace tandem::check {

namespace {

using graph::NodeId;
using machine::DigitUse;
using machine::NodeLayout;
using rewrite::Draft;
using rewrite::Rule;
using rewrite::Slot;

// Rules that cut one operator, in a way to be chosen.
std::vector<Rule> cutting_rules() {
  auto out = rewrite::usable_rules();
  std::erase_if(out, [](const Rule& rule) {
    const auto operators = std::ranges::count_if(
        rule.source.nodes, [](const auto& node) { return !node.is_variable(); });
    return rule.choices.empty() || operators != 1 || rule.source.outputs.size() != 1;
  });
  return out;
}

// The uses that need a rule, a factor that stands before another one in some dimension first.
std::vector<DigitUse> cutting_uses(const NodeLayout& layout, const machine::Digits& digits) {
  std::vector<DigitUse> out;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    const auto use = layout.uses[i];
    const bool cuts = (use.is_factor() || use.is_through()) && digits[i].size > 1;
    if (cuts && std::ranges::find(out, use) == out.end()) out.push_back(use);
  }
  return out;
}

std::int64_t degree_of(const NodeLayout& layout, const machine::Digits& digits, DigitUse use) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (layout.uses[i] == use) out *= digits[i].size;
  }
  return out;
}

// One operator on whole operands.
class Alone {
 public:
  Alone(const graph::Graph& pcg, NodeId id)
      : op_(pcg.node(id).op), signature_(signature_of(pcg, id)) {
    graph::GraphBuilder builder("alone");
    std::vector<NodeId> inputs;
    for (auto i : pcg.inputs(id)) {
      const auto& type = pcg.node(i).type;
      sizes_.push_back(type.shape.sizes);
      inputs.push_back(builder.input("", ParallelShape(type.shape.sizes), type.dtype,
                                     is_integer(type.dtype) ? 2 : 0));
    }
    const auto result = builder.add(op_, inputs);
    graph_ = builder.finish({result});
  }

  // The rules that lead to the layout, one for each use; nothing where one is missing.
  std::optional<std::vector<std::string>> derive(const NodeLayout& layout,
                                                 const std::vector<Rule>& rules,
                                                 const machine::Digits& digits) const {
    const auto uses = cutting_uses(layout, digits);
    std::vector<std::int64_t> degrees;
    degrees.reserve(uses.size());
    for (auto use : uses) degrees.push_back(degree_of(layout, digits, use));
    rewrite::Dictionary dictionary;
    const rewrite::RuleSet set(rules, dictionary, {.degrees = degrees});
    auto draft = Draft::of(graph_, dictionary);
    std::vector<std::string> out;
    NodeLayout now;
    for (auto use : uses) {
      for (std::size_t i = 0; i < digits.count(); ++i) {
        if (layout.uses[i] == use) now.uses[i] = use;
      }
      const auto rule = cut(draft, now, set, dictionary, digits);
      if (!rule) return std::nullopt;
      out.push_back(set.rules()[*rule].name);
    }
    return out;
  }

 private:
  [[nodiscard]] Slot slot_in(const Draft& draft, const rewrite::Dictionary& dictionary) const {
    const auto is_it = [&](Slot slot) {
      return dictionary.op(draft.node(slot).op).role() == ops::Role::kCompute;
    };
    return *std::ranges::find_if(draft.order(), is_it);
  }

  // The first rule after which the operands are cut so.
  std::optional<std::uint32_t> cut(Draft& draft, const NodeLayout& layout,
                                   const rewrite::RuleSet& rules,
                                   const rewrite::Dictionary& dictionary,
                                   const machine::Digits& digits) const {
    std::vector<rewrite::Match> matches;
    rules.match_single(draft, slot_in(draft, dictionary), matches);
    std::ranges::sort(matches);
    std::vector<Slot> changed;
    for (const auto& match : matches) {
      auto next = rules.apply(draft, match, changed);
      if (!next || !is_cut(*next, layout, dictionary, digits)) continue;
      draft = std::move(*next);
      return match.rule;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_cut(const Draft& draft, const NodeLayout& layout,
                            const rewrite::Dictionary& dictionary,
                            const machine::Digits& digits) const {
    const auto slot = slot_in(draft, dictionary);
    if (dictionary.op(draft.node(slot).op) != op_) return false;
    const auto inputs = draft.inputs(slot);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto wanted =
          parallel_shape(input_layout(signature_, layout, digits.count(), i), sizes_[i], digits);
      if (dictionary.type(draft.node(inputs[i]).type).shape != wanted) return false;
    }
    return true;
  }

  ops::Op op_;
  const ops::Signature& signature_;
  std::vector<Shape> sizes_;  // by operand
  graph::Graph graph_;
};

// What operators that are cut alike have in common.
std::string key_of(const graph::Graph& pcg, NodeId id, const NodeLayout& layout,
                   const machine::Digits& digits) {
  auto out = pcg.node(id).op.name() + " " + pcg.node(id).op.attribute_text();
  for (const auto& type : pcg.input_types(id)) out += " " + to_text(type.shape);
  for (auto use : cutting_uses(layout, digits)) {
    out += use.is_factor() ? " " : " through ";
    out += std::to_string(use.is_factor() ? use.factor() : use.through_set());
  }
  return out;
}

}  // namespace

Cuts cuts_by_rules(const plan::MappedGraph& mapped, const machine::Digits& digits) {
  const auto rules = cutting_rules();
  std::map<std::string, std::optional<std::vector<std::string>>> known;
  Cuts out;
  const auto& pcg = mapped.pcg;
  for (auto id : pcg.ids()) {
    if (pcg.node(id).op.role() != ops::Role::kCompute) continue;
    std::vector<machine::Layout> operands;
    for (auto i : pcg.inputs(id)) operands.push_back(mapped.layouts[i.index()]);
    const auto layout = infer_node_layout(signature_of(pcg, id), operands, digits);
    if (layout && cutting_uses(*layout, digits).empty()) continue;
    ++out.operators;
    const auto [at, fresh] = known.try_emplace(layout ? key_of(pcg, id, *layout, digits) : "");
    if (fresh && layout) at->second = Alone(pcg, id).derive(*layout, rules, digits);
    if (!at->second) {
      out.without.push_back(pcg.node(id).name);
      continue;
    }
    out.steps += at->second->size();
    out.rules.insert(at->second->begin(), at->second->end());
  }
  return out;
}

}  // namespace tandem::check
