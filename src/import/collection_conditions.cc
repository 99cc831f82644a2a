#include "import/collection_conditions.h"

#include <algorithm>
#include <numeric>

namespace tandem::import {

using rewrite::Expression;
using rewrite::make_literal;
using rewrite::Operation;
using rewrite::PatternSizes;
using rewrite::Ranks;
using rewrite::Rule;

std::vector<std::uint16_t> compute_shape_classes(const Rule& rule) {
  std::vector<std::uint16_t> out(rule.tensors.size());
  std::iota(out.begin(), out.end(), std::uint16_t{0});
  for (const auto& condition : rule.conditions) {
    if (condition.operation != Operation::kSameShape) continue;
    const auto [first, second] =
        std::minmax(out[condition.variables[0]], out[condition.variables[1]]);
    std::ranges::replace(out, std::uint16_t{second}, std::uint16_t{first});
  }
  return out;
}

void merge_same_shapes(Rule& rule) {
  const auto classes = compute_shape_classes(rule);
  std::erase_if(rule.conditions, [](const Expression& condition) {
    return condition.operation == Operation::kSameShape;
  });
  for (std::size_t v = 0; v < classes.size(); ++v) {
    if (classes[v] == v) continue;
    rule.conditions.push_back({.operation = Operation::kSameShape,
                               .variables = {classes[v], static_cast<std::uint16_t>(v)}});
  }
}

void add_rank_conditions(Rule& rule, const Ranks& ranks) {
  Ranks structural(rule.tensors.size());
  const PatternSizes::KnownPatternSizes nothing{.of_one_rank = false};
  const PatternSizes sizes(rule.source, structural, nothing);
  const auto classes = compute_shape_classes(rule);
  for (std::size_t v = 0; v < ranks.size(); ++v) {
    if (!ranks[v] || structural[v] || classes[v] != v) continue;
    Expression condition{
        .operation = Operation::kEqual,
        .operands = {{.operation = Operation::kRank, .variables = {static_cast<std::uint16_t>(v)}},
                     make_literal(static_cast<std::int64_t>(*ranks[v]))}};
    if (std::ranges::find(rule.conditions, condition) == rule.conditions.end()) {
      rule.conditions.push_back(std::move(condition));
    }
  }
}

void add_degree_choice(Rule& rule) {
  std::vector<bool> bound(rule.symbols.size());
  for (const auto& node : rule.source.nodes) {
    for (const auto& attribute : node.attributes) {
      for_each_binder(attribute, [&](std::uint16_t symbol) { bound[symbol] = true; });
    }
  }
  for (std::size_t s = 0; s < bound.size(); ++s) {
    if (!bound[s] && rule.symbols[s] == "d") rule.choices.push_back(static_cast<std::uint16_t>(s));
  }
}

}  // namespace tandem::import
