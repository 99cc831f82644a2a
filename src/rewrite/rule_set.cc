#include "rewrite/rule_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ops/registry.h"

namespace tandem::rewrite {

namespace {

constexpr std::size_t kMaxSourceNodes = 64;  // limit for a source
constexpr std::size_t kMaxSymbols = 16;      // limit for a rule
constexpr Slot kNowhere = ~Slot{0};

std::size_t compute_depth(const Side& side) {
  std::vector<std::size_t> depth(side.nodes.size());
  std::size_t deepest = 0;
  for (std::size_t i = 0; i < side.nodes.size(); ++i) {
    for (auto input : side.nodes[i].inputs) depth[i] = std::max(depth[i], depth[input]);
    if (!side.nodes[i].is_variable()) ++depth[i];
    deepest = std::max(deepest, depth[i]);
  }
  return deepest;
}

void check_size(const Rule& rule) {
  const auto check = [&](std::size_t count, std::size_t most, std::string_view what) {
    if (count <= most) return;
    throw UserError("rule", rule.name,
                    fmt::format("{} {}, but at most {} can be matched", count, what, most));
  };
  check(rule.source.outputs.size(), Match::kMaxOutputs, "outputs");
  check(rule.choices.size(), Match::kMaxChoices, "choices");
  check(rule.source.nodes.size(), kMaxSourceNodes, "nodes in the source");
  check(rule.symbols.size(), kMaxSymbols, "symbols");
}

}  // namespace

// Binds the nodes of a source to slots, top-down from its outputs.
class RuleSet::Attempt {
 public:
  Attempt(const Draft& draft, const Source& source, Dictionary& dictionary)
      : draft_(&draft), source_(&source), dictionary_(&dictionary) {
    std::fill_n(slots_.begin(), source.nodes.size(), kNowhere);
  }

  [[nodiscard]] Slot slot(PatternId id) const { return slots_[id]; }
  [[nodiscard]] const Draft& draft() const { return *draft_; }
  [[nodiscard]] const Source& source() const { return *source_; }

  bool bind(PatternId id, Slot slot) {
    if (slots_[id] != kNowhere) return slots_[id] == slot;
    const auto& pattern = source_->nodes[id];
    slots_[id] = slot;
    if (pattern.is_variable) return true;
    const auto& node = draft_->node(slot);
    if (dictionary_->spec(node.op) != pattern.spec) return false;
    const auto inputs = draft_->inputs(slot);
    if (inputs.size() != pattern.inputs.size()) return false;
    if (!bind_attributes(pattern, dictionary_->attributes(node.op))) return false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!bind(pattern.inputs[i], inputs[i])) return false;
    }
    return true;
  }

  bool bind_symbol(std::uint16_t symbol, ValueId value) {
    if (is_set_[symbol]) return values_[symbol] == value;
    is_set_[symbol] = true;
    values_[symbol] = value;
    return true;
  }

  // Calls use(bindings) with the values of the rule's variables.
  template <class Use>
  auto with_bindings(const Rule& rule, Use&& use) const {
    std::array<const TensorType*, kMaxSourceNodes> tensors{};
    std::array<std::optional<Value>, kMaxSymbols> symbols;
    for (std::size_t i = 0; i < rule.source.nodes.size(); ++i) {
      const auto& node = rule.source.nodes[i];
      if (node.is_variable()) {
        tensors[node.variable] = &dictionary_->type(draft_->node(slots_[i]).type);
      }
    }
    for (std::size_t s = 0; s < rule.symbols.size(); ++s) {
      if (is_set_[s]) symbols[s] = dictionary_->value(values_[s]);
    }
    return use(Bindings{tensors, symbols});
  }

  // Returns whether the rule's conditions hold and the source's computed attributes have the values
  // of the draft.
  [[nodiscard]] bool satisfies(const Rule& rule) const {
    if (rule.conditions.empty() && source_->computed.empty()) return true;
    return with_bindings(rule, [&](const Bindings& bindings) {
      return std::ranges::all_of(source_->computed,
                                 [&](const Computed& c) { return agrees(c, bindings); }) &&
             std::ranges::all_of(rule.conditions,
                                 [&](const Expression& e) { return holds(e, bindings); });
    });
  }

 private:
  bool bind_attributes(const CompiledPatternNode& pattern, std::span<const ValueId> values) {
    using enum CompiledPatternAttribute::CompiledAttributeKind;
    for (const auto& attribute : pattern.attributes) {
      const auto value = values[attribute.position];
      if (attribute.kind == kValue && attribute.value != value) return false;
      if (attribute.kind == kSymbol && !bind_symbol(attribute.symbol, value)) return false;
      if (attribute.kind == kList && !bind_list(*attribute.expression, value)) return false;
    }
    return true;
  }

  bool bind_list(const Expression& pattern, ValueId value) {
    const auto* items = std::get_if<std::vector<std::int64_t>>(&dictionary_->value(value));
    if (items == nullptr || items->size() != pattern.operands.size()) return false;
    for (std::size_t i = 0; i < items->size(); ++i) {
      const auto& operand = pattern.operands[i];
      const Value item = (*items)[i];
      if (operand.operation == Operation::kSymbol) {
        if (!bind_symbol(operand.variables[0], dictionary_->intern(item))) return false;
      } else if (operand.literal != item) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool agrees(const Computed& computed, const Bindings& bindings) const {
    const auto values = dictionary_->attributes(draft_->node(slots_[computed.node]).op);
    const auto value = evaluate(*computed.expression, bindings);
    return value && *value == dictionary_->value(values[computed.position]);
  }

  const Draft* draft_;
  const Source* source_;
  Dictionary* dictionary_;
  std::array<Slot, kMaxSourceNodes> slots_;  // by pattern node
  std::array<ValueId, kMaxSymbols> values_{};
  std::array<bool, kMaxSymbols> is_set_{};
};

// --- Preparation --------------------------------------------------------------------------------

RuleSet::RuleSet(std::vector<Rule> rules, Dictionary& dictionary, Limits limits)
    : rules_(std::move(rules)), dictionary_(dictionary), limits_(std::move(limits)) {
  std::unordered_map<Hash, std::vector<std::uint32_t>> known;  // sources by hash
  for (std::uint32_t r = 0; r < rules_.size(); ++r) {
    check_size(rules_[r]);
    depth_ = std::max(depth_, compute_depth(rules_[r].source));
    auto& same_hash = known[compute_hash(rules_[r].source)];
    const auto at = std::ranges::find_if(same_hash, [&](std::uint32_t s) {
      return rules_[sources_[s].rules[0]].source == rules_[r].source;
    });
    source_of_.push_back(at == same_hash.end() ? static_cast<std::uint32_t>(sources_.size()) : *at);
    if (at == same_hash.end()) {
      same_hash.push_back(source_of_.back());
      sources_.push_back(compile(rules_[r]));
    }
    sources_[source_of_.back()].rules.push_back(r);
  }
}

RuleSet::Source RuleSet::compile(const Rule& rule) const {
  Source out;
  out.outputs = rule.source.outputs;
  for (const auto& node : rule.source.nodes) {
    CompiledPatternNode compiled;
    compiled.is_variable = node.is_variable();
    compiled.inputs = node.inputs;
    if (!node.is_variable()) compiled.spec = dictionary_.get_spec_id(*node.spec);
    for (std::size_t i = 0; i < node.attributes.size(); ++i) {
      const auto& expression = node.attributes[i];
      CompiledPatternAttribute attribute{.position = i, .expression = &expression};
      const auto is_simple = [](const Expression& e) {
        return e.operation == Operation::kSymbol || e.operation == Operation::kLiteral;
      };
      if (expression.operation == Operation::kLiteral) {
        attribute.value = dictionary_.intern(expression.literal);
      } else if (expression.operation == Operation::kSymbol) {
        attribute.kind = CompiledPatternAttribute::CompiledAttributeKind::kSymbol;
        attribute.symbol = expression.variables[0];
      } else if (expression.operation == Operation::kList &&
                 std::ranges::all_of(expression.operands, is_simple)) {
        attribute.kind = CompiledPatternAttribute::CompiledAttributeKind::kList;
      } else {
        out.computed.push_back({static_cast<PatternId>(out.nodes.size()), i, &expression});
        continue;
      }
      compiled.attributes.push_back(attribute);
    }
    out.nodes.push_back(std::move(compiled));
  }
  for (std::size_t i = 0; i < out.outputs.size() && out.outputs.size() > 1; ++i) {
    out.climbs.push_back(find_climbs(out, i));
  }
  return out;
}

std::vector<RuleSet::Climb> RuleSet::find_climbs(const Source& source, std::size_t first) {
  std::vector<bool> is_bound(source.nodes.size());
  const auto bind_below = [&](PatternId root) {
    std::vector<PatternId> stack{root};
    while (!stack.empty()) {
      const auto id = stack.back();
      stack.pop_back();
      if (is_bound[id]) continue;
      is_bound[id] = true;
      stack.insert(stack.end(), source.nodes[id].inputs.begin(), source.nodes[id].inputs.end());
    }
  };
  // Returns a shortest path from an output down to a bound node. Sources have few nodes.
  const auto way_to = [&](std::size_t output) {
    struct ClimbVisit {
      PatternId id;
      std::vector<Climb::ClimbStep> steps;
    };
    std::vector<ClimbVisit> queue{{source.outputs[output], {}}};
    for (std::size_t q = 0; q < queue.size(); ++q) {
      const auto visit = queue[q];
      if (is_bound[visit.id]) {
        return Climb{output, true, visit.id, {visit.steps.rbegin(), visit.steps.rend()}};
      }
      const auto& inputs = source.nodes[visit.id].inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        queue.push_back({inputs[i], visit.steps});
        queue.back().steps.push_back({visit.id, i});
      }
    }
    return Climb{.output = output, .steps = {}};
  };
  std::vector<Climb> out;
  std::vector<bool> done(source.outputs.size());
  done[first] = true;
  bind_below(source.outputs[first]);
  while (out.size() + 1 < source.outputs.size()) {
    std::optional<Climb> next;
    for (std::size_t o = 0; o < source.outputs.size(); ++o) {
      if (done[o]) continue;
      auto way = way_to(o);
      if (!next || (way.is_connected && !next->is_connected)) next = std::move(way);
    }
    done[next->output] = true;
    bind_below(source.outputs[next->output]);
    out.push_back(std::move(*next));
  }
  return out;
}

const std::vector<RuleSet::Root>& RuleSet::find_roots(const Draft& draft, Slot slot,
                                                      bool several) const {
  const auto inputs = draft.inputs(slot);
  const auto spec_of = [&](Slot s) { return dictionary_.spec(draft.node(s).op).value; };
  std::array<std::uint32_t, 3> specs = {spec_of(slot), 0, 0};
  std::uint64_t key = (static_cast<std::uint64_t>(several) << 48U) | specs[0];
  for (std::size_t i = 0; i < 2 && i < inputs.size(); ++i) {
    specs[i + 1] = spec_of(inputs[i]);
    key |= static_cast<std::uint64_t>(specs[i + 1] + 1) << (16 * (i + 1));
  }
  const auto [known, fresh] = roots_.try_emplace(key);
  if (!fresh) return known->second;
  for (std::uint32_t s = 0; s < sources_.size(); ++s) {
    const auto& source = sources_[s];
    if ((source.outputs.size() > 1) != several) continue;
    for (std::uint32_t o = 0; o < source.outputs.size(); ++o) {
      const auto& root = source.nodes[source.outputs[o]];
      bool fits = root.spec.value == specs[0];
      for (std::size_t i = 0; i < 2 && i < root.inputs.size() && fits; ++i) {
        const auto& child = source.nodes[root.inputs[i]];
        fits = i < inputs.size() && (child.is_variable || child.spec.value == specs[i + 1]);
      }
      if (fits) known->second.push_back({s, o});
    }
  }
  return known->second;
}

// --- Matching -----------------------------------------------------------------------------------

void RuleSet::match_single(const Draft& draft, Slot slot, std::vector<Match>& out) const {
  for (const auto& root : find_roots(draft, slot, false)) {
    const auto& source = sources_[root.source];
    Attempt attempt(draft, source, dictionary_);
    if (attempt.bind(source.outputs[0], slot)) add_matches(attempt, out);
  }
}

void RuleSet::match_several(const Draft& draft, const Users& users, Slot slot,
                            const std::vector<bool>& is_anchor, std::vector<Match>& out) const {
  for (const auto& root : find_roots(draft, slot, true)) {
    const auto& source = sources_[root.source];
    Attempt attempt(draft, source, dictionary_);
    if (attempt.bind(source.outputs[root.output], slot)) {
      bind_others(attempt, {users, is_anchor, slot}, source.climbs[root.output], out);
    }
  }
}

void RuleSet::bind_others(const Attempt& attempt, const Search& search,
                          std::span<const Climb> climbs, std::vector<Match>& out) const {
  if (out.size() >= limits_.matches) return;
  const auto& source = attempt.source();
  if (climbs.empty()) {
    add_matches(attempt, out);
    return;
  }
  const auto& climb = climbs[0];
  const auto root = source.outputs[climb.output];
  const auto try_at = [&](Slot slot) {
    if (search.is_anchor[slot] && slot < search.anchor) return;
    const auto is_there = [&](PatternId output) { return attempt.slot(output) == slot; };
    if (std::ranges::any_of(source.outputs, is_there)) return;  // outputs differ
    auto next = attempt;
    if (next.bind(root, slot)) bind_others(next, search, climbs.subspan(1), out);
  };
  const auto& draft = attempt.draft();
  if (!climb.is_connected) {
    for (auto slot : draft.order()) {
      if (dictionary_.spec(draft.node(slot).op) == source.nodes[root].spec) try_at(slot);
    }
    return;
  }
  std::vector<Slot> reached{attempt.slot(climb.from)};
  for (const auto& step : climb.steps) {
    std::vector<Slot> parents;
    for (auto below : reached) {
      for (auto user : search.users.of(below)) {
        const auto inputs = draft.inputs(user);
        if (dictionary_.spec(draft.node(user).op) == source.nodes[step.parent].spec &&
            step.operand < inputs.size() && inputs[step.operand] == below &&
            std::ranges::find(parents, user) == parents.end()) {
          parents.push_back(user);
        }
      }
    }
    reached = std::move(parents);
  }
  for (auto slot : reached) try_at(slot);
}

std::vector<std::int64_t> RuleSet::list_choice_values(const Rule& rule, std::uint16_t symbol,
                                                      std::size_t rank) const {
  for (const auto& node : rule.target.nodes) {
    for (std::size_t i = 0; i < node.attributes.size(); ++i) {
      const auto& attribute = node.attributes[i];
      const bool is_it =
          attribute.operation == Operation::kSymbol && attribute.variables[0] == symbol;
      const auto& name = node.spec == nullptr ? std::string() : node.spec->attributes[i].first;
      if (is_it && (name == "degree" || name == "parts")) return limits_.degrees;
    }
  }
  std::vector<std::int64_t> out(rank);
  for (std::size_t i = 0; i < rank; ++i) out[i] = static_cast<std::int64_t>(i);
  return out;
}

void RuleSet::add_matches(const Attempt& attempt, std::vector<Match>& out) const {
  const auto& source = attempt.source();
  const auto& draft = attempt.draft();
  // A loss has rank 0, but its operands have dimensions.
  const auto root = attempt.slot(source.outputs[0]);
  const auto rank_of = [&](Slot slot) {
    return dictionary_.type(draft.node(slot).type).shape.rank();
  };
  auto rank = rank_of(root);
  for (auto input : draft.inputs(root)) rank = std::max(rank, rank_of(input));
  for (auto r : source.rules) {
    const auto& rule = rules_[r];
    Match match{.rule = r};
    for (std::size_t o = 0; o < source.outputs.size(); ++o) {
      match.outputs[o] = attempt.slot(source.outputs[o]);
    }
    const auto choose = [&](const auto& self, const Attempt& bound, std::size_t c) -> void {
      if (out.size() >= limits_.matches) return;
      if (c == rule.choices.size()) {
        if (bound.satisfies(rule)) out.push_back(match);
        return;
      }
      for (auto candidate : list_choice_values(rule, rule.choices[c], rank)) {
        auto next = bound;
        match.choices[c] = static_cast<std::int32_t>(candidate);
        next.bind_symbol(rule.choices[c], dictionary_.intern(Value(candidate)));
        self(self, next, c + 1);
      }
    };
    if (rule.choices.empty()) {
      if (attempt.satisfies(rule)) out.push_back(match);
    } else {
      choose(choose, attempt, 0);
    }
  }
}

// --- Applying -----------------------------------------------------------------------------------

std::optional<RuleSet::Attempt> RuleSet::bind(const Draft& draft, const Match& match) const {
  const auto& rule = rules_[match.rule];
  const auto& source = sources_[source_of_[match.rule]];
  Attempt attempt(draft, source, dictionary_);
  for (std::size_t o = 0; o < source.outputs.size(); ++o) {
    const auto slot = match.outputs[o];
    if (slot >= draft.slot_count() || !draft.node(slot).in_use) return std::nullopt;
    if (!attempt.bind(source.outputs[o], slot)) return std::nullopt;
  }
  for (std::size_t c = 0; c < rule.choices.size(); ++c) {
    attempt.bind_symbol(rule.choices[c], dictionary_.intern(Value(std::int64_t{match.choices[c]})));
  }
  if (!attempt.satisfies(rule)) return std::nullopt;
  return attempt;
}

std::optional<Draft> RuleSet::apply(const Draft& draft, const Match& match,
                                    std::vector<Slot>& changed) const {
  const auto attempt = bind(draft, match);
  if (!attempt) return std::nullopt;
  auto out = draft;
  const auto replacements = add_target(out, rules_[match.rule], *attempt);
  if (replacements.empty() || !out.replace(replacements, changed)) return std::nullopt;
  return out;
}

bool RuleSet::apply(DraftEdits& edits, const Match& match) const {
  const auto attempt = bind(edits.draft(), match);
  if (!attempt) return false;
  const auto replacements = add_target(edits, rules_[match.rule], *attempt);
  CHECK(replacements.size() <= 1, rules_[match.rule].name);
  if (replacements.empty()) {
    edits.undo();
    return false;
  }
  edits.replace(replacements[0].before, replacements[0].after);
  return true;
}

template <class Edited>
std::vector<Draft::Replacement> RuleSet::add_target(Edited& edited, const Rule& rule,
                                                    const Attempt& attempt) const {
  return attempt.with_bindings(
      rule, [&](const Bindings& bindings) { return add_target(edited, rule, attempt, bindings); });
}

template <class Edited>
std::vector<Draft::Replacement> RuleSet::add_target(Edited& edited, const Rule& rule,
                                                    const Attempt& attempt,
                                                    const Bindings& bindings) const {
  const auto replaced = attempt.slot(rule.source.outputs[0]);
  std::array<Slot, kMaxSourceNodes> of_variable{};
  for (std::size_t i = 0; i < rule.source.nodes.size(); ++i) {
    const auto& node = rule.source.nodes[i];
    if (node.is_variable()) of_variable[node.variable] = attempt.slot(static_cast<PatternId>(i));
  }
  std::vector<Slot> slots;
  slots.reserve(rule.target.nodes.size());
  std::vector<Slot> inputs;
  std::vector<TypeId> types;
  for (const auto& node : rule.target.nodes) {
    if (node.is_variable()) {
      slots.push_back(of_variable[node.variable]);
      continue;
    }
    const auto op = make_op(node, bindings);
    if (!op) return {};
    inputs.clear();
    types.clear();
    for (auto input : node.inputs) {
      inputs.push_back(slots[input]);
      types.push_back(edited.node(slots[input]).type);
    }
    const auto type = dictionary_.infer_result_type(*op, types);
    if (!type) return {};
    slots.push_back(edited.add(*op, dictionary_.op(*op).hash(), *type, inputs, replaced));
  }
  std::vector<Draft::Replacement> replacements;
  bool differs = false;
  for (std::size_t o = 0; o < rule.target.outputs.size(); ++o) {
    const auto before = attempt.slot(rule.source.outputs[o]);
    const auto after = slots[rule.target.outputs[o]];
    if (edited.node(before).type != edited.node(after).type) return {};
    replacements.push_back({before, after});
    differs = differs || before != after;
  }
  if (!differs) replacements.clear();
  return replacements;
}

std::optional<OpId> RuleSet::make_op(const PatternNode& node, const Bindings& bindings) const {
  std::vector<ValueId> values;
  values.reserve(node.attributes.size());
  for (const auto& attribute : node.attributes) {
    const auto value = evaluate(attribute, bindings);
    if (!value) return std::nullopt;
    values.push_back(dictionary_.intern(*value));
  }
  return dictionary_.make_op(*node.spec, values);
}

}  // namespace tandem::rewrite
