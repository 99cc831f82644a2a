#include "unity/search_rules.h"

#include <algorithm>
#include <set>

#include "rewrite/collection.h"

namespace tandem::unity {

namespace {

using rewrite::PatternNode;
using rewrite::Rule;
using rewrite::Side;

bool has_role(const Side& side, ops::Role role) {
  return std::ranges::any_of(side.nodes, [&](const PatternNode& node) {
    return !node.is_variable() && node.spec->role == role;
  });
}

std::size_t count_role(const Side& side, ops::Role role) {
  return static_cast<std::size_t>(std::ranges::count_if(side.nodes, [&](const PatternNode& node) {
    return !node.is_variable() && node.spec->role == role;
  }));
}

// Returns the side without its parallelization operators.
Side erase_parallel_operators(const Side& side) {
  Side out;
  std::vector<rewrite::PatternId> at;
  for (const auto& node : side.nodes) {
    if (!node.is_variable() && node.spec->role == ops::Role::kParallel) {
      at.push_back(at[node.inputs[0]]);
      continue;
    }
    auto copy = node;
    for (auto& input : copy.inputs) input = at[input];
    at.push_back(out.add(std::move(copy)));
  }
  for (auto output : side.outputs) out.outputs.push_back(at[output]);
  return out;
}

// Hashes the tree below one output, since the two sides number their nodes differently.
Hash compute_tree_hash(const Side& side, rewrite::PatternId id) {
  const auto& node = side.nodes[id];
  if (node.is_variable()) return hash_combine(hash_text("variable"), node.variable);
  Side alone;
  alone.nodes.push_back(node);
  alone.nodes[0].inputs.clear();
  alone.outputs = {0};
  Hash h = rewrite::compute_hash(alone);
  for (auto input : node.inputs) h = hash_combine(h, compute_tree_hash(side, input));
  return h;
}

bool computes_the_same(const Rule& rule) {
  const auto source = erase_parallel_operators(rule.source);
  const auto target = erase_parallel_operators(rule.target);
  for (std::size_t o = 0; o < source.outputs.size(); ++o) {
    if (compute_tree_hash(source, source.outputs[o]) !=
        compute_tree_hash(target, target.outputs[o]))
      return false;
  }
  return true;
}

// Returns whether the rule has only parallelization operators, and as many after as before. Graphs
// that differ in their order are one candidate.
bool is_reordering(const Rule& rule) {
  const auto only = [](const Side& side) {
    return !has_role(side, ops::Role::kCompute) && !has_role(side, ops::Role::kJoin);
  };
  return only(rule.source) && only(rule.target) &&
         count_role(rule.target, ops::Role::kParallel) ==
             count_role(rule.source, ops::Role::kParallel);
}

}  // namespace

bool is_parallel(const Rule& rule) {
  return has_role(rule.source, ops::Role::kParallel) || has_role(rule.target, ops::Role::kParallel);
}

bool is_simplification(const Rule& rule) {
  const auto only = [](const Side& side) { return !has_role(side, ops::Role::kCompute); };
  return rule.choices.empty() && only(rule.source) && only(rule.target) &&
         count_role(rule.target, ops::Role::kParallel) <
             count_role(rule.source, ops::Role::kParallel);
}

std::vector<Rule> list_search_rules() {
  std::vector<Rule> out;
  for (const auto& shipped : rewrite::shipped_rules()) {
    if (shipped.origin != "rules/layouts.rules" && shipped.is_proved()) {
      out.push_back(shipped.to_guarded_rule());
    }
  }
  std::erase_if(out, [](const Rule& rule) {
    const bool joins =
        has_role(rule.source, ops::Role::kJoin) || has_role(rule.target, ops::Role::kJoin);
    return joins || is_reordering(rule) || (is_parallel(rule) && !computes_the_same(rule));
  });
  return out;
}

std::vector<std::int64_t> list_degrees(const machine::Digits& digits, machine::DigitMask free) {
  std::set<std::int64_t> found = {1};
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (!machine::has_digit(free, i)) continue;
    for (auto known : std::set(found)) found.insert(known * digits[i].size);
  }
  found.erase(1);
  return {found.begin(), found.end()};
}

}  // namespace tandem::unity
