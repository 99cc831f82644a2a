#include "rewrite/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ops/registry.h"

namespace tandem::rewrite {

namespace {

struct BoundRuleVariables {
  std::vector<bool> tensors;
  std::vector<bool> symbols;
};

BoundRuleVariables find_bound_variables(const Rule& rule) {
  BoundRuleVariables out{std::vector<bool>(rule.tensors.size()),
                         std::vector<bool>(rule.symbols.size())};
  for (const auto& node : rule.source.nodes) {
    if (node.is_variable()) out.tensors[node.variable] = true;
    for (const auto& attribute : node.attributes) {
      for_each_binder(attribute, [&](std::uint16_t symbol) { out.symbols[symbol] = true; });
    }
  }
  for (auto choice : rule.choices) out.symbols[choice] = true;
  return out;
}

void check_expression(const Rule& rule, const BoundRuleVariables& bound,
                      const Expression& expression) {
  for_each_part(expression, [&](const Expression& part) {
    const bool symbol = part.operation == Operation::kSymbol;
    for (auto v : part.variables) {
      if (symbol ? bound.symbols[v] : bound.tensors[v]) continue;
      throw UserError(
          "rule", rule.name,
          fmt::format("?{} is not bound by the source", symbol ? rule.symbols[v] : rule.tensors[v]),
          symbol ? "bind it by an attribute of the source that consists of it alone, such as "
                   "axis=?a; name a free one after `choose`"
                 : "");
    }
  });
}

Hash compute_hash(const Expression& e) {
  Hash h = hash_combine(static_cast<Hash>(e.operation), rewrite::compute_hash(e.literal));
  for (auto v : e.variables) h = hash_combine(h, v);
  for (const auto& operand : e.operands) h = hash_combine(h, compute_hash(operand));
  return h;
}

}  // namespace

const std::vector<Expression>& get_default_attributes(const ops::OpSpec& spec) {
  static const auto all = [] {
    std::unordered_map<const ops::OpSpec*, std::vector<Expression>> out;
    for (const auto* s : ops::all_ops()) {
      auto& usual = out[s];
      for (const auto& [name, value] : s->attributes) {
        usual.push_back({.literal = parse_value(value)});
      }
    }
    return out;
  }();
  return all.at(&spec);
}

std::size_t Side::operator_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(nodes, [](const PatternNode& node) { return !node.is_variable(); }));
}

PatternId Side::add(PatternNode node) {
  const auto known = std::ranges::find(nodes, node);
  const auto id = static_cast<PatternId>(known - nodes.begin());
  if (known == nodes.end()) nodes.push_back(std::move(node));
  return id;
}

Hash compute_hash(const Side& side) {
  Hash h = mix(side.nodes.size());
  for (const auto& node : side.nodes) {
    h = hash_combine(h, node.is_variable() ? node.variable : hash_text(node.spec->name));
    for (const auto& attribute : node.attributes) h = hash_combine(h, compute_hash(attribute));
    for (auto input : node.inputs) h = hash_combine(h, input);
  }
  for (auto output : side.outputs) h = hash_combine(h, output);
  return h;
}

Hash compute_hash(const Rule& rule) {
  Hash h = hash_combine(compute_hash(rule.source), compute_hash(rule.target));
  for (const auto& condition : rule.conditions) h = hash_combine(h, compute_hash(condition));
  for (auto choice : rule.choices) h = hash_combine(h, choice);
  return h;
}

Rule reverse_rule(const Rule& rule, std::string name) {
  Rule out = rule;
  out.name = std::move(name);
  std::swap(out.source, out.target);
  // The new source binds the symbols that were choices.
  out.choices.clear();
  check_bound(out);
  return out;
}

void check_bound(const Rule& rule) {
  if (rule.source.outputs.size() != rule.target.outputs.size()) {
    throw UserError("rule", rule.name,
                    fmt::format("the source has {} outputs, but the target has {}",
                                rule.source.outputs.size(), rule.target.outputs.size()));
  }
  for (auto output : rule.source.outputs) {
    if (!rule.source.nodes[output].is_variable()) continue;
    throw UserError("rule", rule.name, "an output of the source is a variable",
                    "a rule must start at an operator");
  }
  const auto bound = find_bound_variables(rule);
  for (const auto& node : rule.target.nodes) {
    if (node.is_variable() && !bound.tensors[node.variable]) {
      throw UserError("rule", rule.name,
                      fmt::format("?{} is not bound by the source", rule.tensors[node.variable]));
    }
    for (const auto& attribute : node.attributes) check_expression(rule, bound, attribute);
  }
  for (const auto& node : rule.source.nodes) {
    for (const auto& attribute : node.attributes) check_expression(rule, bound, attribute);
  }
  for (const auto& condition : rule.conditions) check_expression(rule, bound, condition);
}

}  // namespace tandem::rewrite
