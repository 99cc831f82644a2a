#include "generate/widen.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rewrite/rule_text.h"

namespace tandem::generate {

using rewrite::Expression;
using rewrite::Rule;
using rewrite::Value;

namespace {

constexpr std::int64_t kMostElements = 400;

bool is_small(const Assignment& assignment) {
  return std::ranges::all_of(assignment.tensors, [](const TensorType& t) {
    return t.shape.sizes.count() <= kMostElements;
  });
}

template <class Change>
Assignment change_shapes(const Assignment& from, Change&& change) {
  Assignment out = from;
  for (auto& type : out.tensors) type.shape = ParallelShape(change(type.shape.sizes));
  return out;
}

// Returns the shape with one more dimension in front.
Shape prepend_dimension(const Shape& shape, std::int64_t size) {
  Shape out = {size};
  for (auto s : shape) out.push_back(s);
  return out;
}

// Returns assignments with other ranks, and with exchanged dimensions.
std::vector<Assignment> list_other_ranks(const Assignment& found) {
  std::vector<Assignment> out;
  out.push_back(change_shapes(found, [](const Shape& s) {
    return s.rank() < Shape::kMaxRank ? prepend_dimension(s, 2) : s;
  }));
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = i + 1; j < 4; ++j) {
      out.push_back(change_shapes(found, [&](Shape s) {
        if (j < s.rank()) std::swap(s[i], s[j]);
        return s;
      }));
    }
  }
  return out;
}

std::vector<Value> list_other_values(const Value& value) {
  using List = std::vector<std::int64_t>;
  std::vector<Value> out;
  if (std::holds_alternative<std::int64_t>(value)) {
    for (std::int64_t i : {0, 1, 2, 3}) out.emplace_back(i);
  } else if (const auto* list = std::get_if<List>(&value); list != nullptr && list->size() == 2) {
    for (const auto& other : {List{1, 1}, List{0, 0}, List{2, 2}, List{1, 2}, List{2, 1}}) {
      out.emplace_back(other);
    }
  } else if (const auto* text = std::get_if<std::string>(&value);
             text != nullptr && *text != "true" && *text != "false") {
    for (const auto* other : {"none", "relu", "tanh"}) out.emplace_back(std::string(other));
  }
  std::erase(out, value);
  return out;
}

// All attributes of one name and value in a rule.
struct RuleAttributeGroup {
  std::string name;
  Value value;
  bool operator==(const RuleAttributeGroup&) const = default;
};

template <class Visit>
void for_each_attribute(rewrite::Side& side, Visit&& visit) {
  for (auto& node : side.nodes) {
    if (node.is_variable() || node.spec->role == ops::Role::kSource) continue;
    for (std::size_t i = 0; i < node.attributes.size(); ++i) {
      visit(node.spec->attributes[i].first, node.attributes[i]);
    }
  }
}

std::vector<RuleAttributeGroup> list_groups(Rule& rule) {
  std::vector<RuleAttributeGroup> out;
  for_each_attribute(rule.source, [&](const std::string& name, const Expression& e) {
    if (e.operation != rewrite::Operation::kLiteral) return;
    RuleAttributeGroup group{name, e.literal};
    if (std::ranges::find(out, group) == out.end()) out.push_back(std::move(group));
  });
  return out;
}

// Returns the rule with a symbol in place of the group.
GeneratedRule replace_by_symbol(const GeneratedRule& made, const RuleAttributeGroup& group) {
  GeneratedRule out = made;
  std::string name = group.name;
  const auto& taken = made.rule.symbols;
  for (int i = 2; std::ranges::find(taken, name) != taken.end(); ++i) {
    name = fmt::format("{}{}", group.name, i);
  }
  const Expression symbol{.operation = rewrite::Operation::kSymbol,
                          .variables = {static_cast<std::uint16_t>(taken.size())}};
  for (auto* side : {&out.rule.source, &out.rule.target}) {
    for_each_attribute(*side, [&](const std::string& n, Expression& e) {
      const bool same = n == group.name && e.operation == rewrite::Operation::kLiteral &&
                        e.literal == group.value;
      if (same) e = symbol;
    });
  }
  out.rule.symbols.push_back(name);
  out.found.symbols.emplace_back(group.value);
  return out;
}

bool holds_for_others(const GeneratedRule& made, const RuleAttributeGroup& group,
                      const std::vector<Assignment>& assignments, KernelCache& kernels) {
  bool holds = false;
  for (const auto& value : list_other_values(group.value)) {
    for (auto assignment : assignments) {
      assignment.symbols.emplace_back(value);
      const auto verdict = judge(made.rule, assignment, kernels);
      if (verdict == Verdict::kFails) return false;
      holds = holds || verdict == Verdict::kHolds;
    }
  }
  return holds;
}

}  // namespace

void free_attributes(GeneratedRule& made, KernelCache& kernels) {
  auto assignments = list_larger_sizes(made);
  for (auto& a : list_other_ranks(made.found)) assignments.push_back(std::move(a));
  std::erase_if(assignments, [](const Assignment& a) { return !is_small(a); });
  for (const auto& group : list_groups(made.rule)) {
    const auto general = replace_by_symbol(made, group);
    if (!holds_for_others(general, group, assignments, kernels)) continue;
    made = general;
    for (auto& a : assignments) a.symbols.emplace_back(group.value);
  }
}

namespace {

Expression make_dim(std::uint16_t tensor, std::size_t d) {
  return {.operation = rewrite::Operation::kDim,
          .variables = {tensor},
          .operands = {{.literal = static_cast<std::int64_t>(d)}}};
}

Expression make_equal(Expression a, Expression b) {
  return {.operation = rewrite::Operation::kEqual, .operands = {std::move(a), std::move(b)}};
}

// Returns conditions that hold for the sizes for which the rule was found.
std::vector<Expression> list_possible_conditions(const GeneratedRule& made) {
  std::vector<Expression> out;
  const auto& types = made.found.tensors;
  const auto n = static_cast<std::uint16_t>(types.size());
  for (std::uint16_t a = 0; a < n; ++a) {
    for (std::uint16_t b = 0; b < a; ++b) {
      if (types[a].shape.sizes == types[b].shape.sizes) {
        out.push_back({.operation = rewrite::Operation::kSameShape, .variables = {b, a}});
      }
    }
  }
  for (std::uint16_t a = 0; a < n; ++a) {
    out.push_back(make_equal({.operation = rewrite::Operation::kRank, .variables = {a}},
                             {.literal = static_cast<std::int64_t>(types[a].shape.rank())}));
  }
  for (std::uint16_t a = 0; a < n; ++a) {
    for (std::uint16_t b = 0; b <= a; ++b) {
      for (std::size_t i = 0; i < types[a].shape.rank(); ++i) {
        for (std::size_t j = 0; j < (a == b ? i : types[b].shape.rank()); ++j) {
          if (types[a].shape.sizes[i] == types[b].shape.sizes[j]) {
            out.push_back(make_equal(make_dim(b, j), make_dim(a, i)));
          }
        }
      }
    }
  }
  for (std::uint16_t a = 0; a < n; ++a) {
    for (std::size_t i = 0; i < types[a].shape.rank(); ++i) {
      if (types[a].shape.sizes[i] == 1)
        out.push_back(make_equal(make_dim(a, i), {.literal = std::int64_t{1}}));
    }
  }
  return out;
}

std::vector<Assignment> list_trials(const GeneratedRule& made) {
  auto out = list_other_sizes(made);
  for (auto& a : list_other_ranks(made.found)) out.push_back(std::move(a));
  // Change the rank of single variables.
  for (std::size_t t = 0; t < made.found.tensors.size(); ++t) {
    const auto& sizes = made.found.tensors[t].shape.sizes;
    auto longer = made.found;
    longer.tensors[t].shape = ParallelShape(prepend_dimension(sizes, 2));
    out.push_back(std::move(longer));
    if (sizes.rank() == 0) continue;
    auto shorter = made.found;
    shorter.tensors[t].shape = ParallelShape(Shape(std::span(sizes.begin() + 1, sizes.end())));
    out.push_back(std::move(shorter));
  }
  std::erase_if(out, [](const Assignment& a) { return !is_small(a); });
  return out;
}

bool fulfils(const Assignment& assignment, const Expression& condition) {
  std::vector<const TensorType*> types;
  types.reserve(assignment.tensors.size());
  for (const auto& t : assignment.tensors) types.push_back(&t);
  return rewrite::holds(condition, {types, assignment.symbols});
}

}  // namespace

bool add_conditions(GeneratedRule& made, KernelCache& kernels) {
  std::vector<Assignment> good;
  std::vector<Assignment> bad;
  for (const auto& a : list_trials(made)) {
    const auto verdict = judge(made.rule, a, kernels);
    if (verdict == Verdict::kHolds) good.push_back(a);
    if (verdict == Verdict::kFails) bad.push_back(a);
  }
  const auto possible = list_possible_conditions(made);
  while (!bad.empty()) {
    // Choose the condition that excludes most of the bad assignments, and then fewest of the good.
    std::pair<std::size_t, std::size_t> best = {0, 0};
    const Expression* chosen = nullptr;
    for (const auto& condition : possible) {
      const auto fails = [&](const Assignment& a) { return !fulfils(a, condition); };
      const auto excluded = static_cast<std::size_t>(std::ranges::count_if(bad, fails));
      const auto accepted =
          good.size() - static_cast<std::size_t>(std::ranges::count_if(good, fails));
      if (excluded > 0 && (chosen == nullptr || std::pair(excluded, accepted) > best)) {
        best = {excluded, accepted};
        chosen = &condition;
      }
    }
    if (chosen == nullptr) return false;
    made.rule.conditions.push_back(*chosen);
    const auto fails = [&](const Assignment& a) { return !fulfils(a, *chosen); };
    std::erase_if(bad, fails);
    std::erase_if(good, fails);
  }
  return !good.empty();
}

}  // namespace tandem::generate
