// Rules: `source => target if conditions`, over graph patterns. If a graph contains the source and
// the conditions hold, the target computes the same tensors of the same types. rewrite/rule_text.h
// has the text form and examples.
//
// A side is a small graph. Its leaves are tensor variables. Its operators are those of graphs, with
// an expression for every attribute. Source and target have the same number of outputs, and output
// i of one equals output i of the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/op.h"
#include "rewrite/expression.h"

namespace tandem::rewrite {

using PatternId = std::uint16_t;

// A node of a side: an operator applied to earlier nodes, or a tensor variable.
struct PatternNode {
  const ops::OpSpec* spec = nullptr;  // null: a variable
  std::uint16_t variable = 0;         // index of the tensor variable
  // All attributes, in the order of spec->attributes. An attribute that the text omits has its
  // default.
  std::vector<Expression> attributes = {};
  std::vector<PatternId> inputs = {};

  [[nodiscard]] bool is_variable() const { return spec == nullptr; }
  bool operator==(const PatternNode&) const = default;
};

// Returns the default attributes of an operator.
const std::vector<Expression>& get_default_attributes(const ops::OpSpec& spec);

// One side of a rule. Nodes are in topological order; equal subpatterns are one node.
struct Side {
  std::vector<PatternNode> nodes;
  std::vector<PatternId> outputs;

  // Returns the number of operators, not counting variables.
  [[nodiscard]] std::size_t operator_count() const;
  // Adds `node` unless there is an equal one. Returns the id of `node` or of its
  // equal.
  PatternId add(PatternNode node);
  bool operator==(const Side&) const = default;
};

struct Rule {
  std::string name;
  std::vector<std::string> tensors;    // names of the tensor variables, without the '?'
  std::vector<std::string> symbols;    // names of the symbols, which are bound to attribute values
  std::vector<std::uint16_t> choices;  // symbols that the source leaves open, to be chosen
  Side source;
  Side target;
  std::vector<Expression> conditions;  // all must hold

  bool operator==(const Rule&) const = default;
};

// Returns a hash that is equal for rules that differ only in names of the rule, its variables or
// symbols.
Hash compute_hash(const Rule& rule);
Hash compute_hash(const Side& side);

// Returns the rule from target to source, called `name`. Throws UserError("rule") if the target
// does not bind all variables.
Rule reverse_rule(const Rule& rule, std::string name);

// Throws UserError("rule", name, ...) if the source does not bind a variable or symbol of the
// target or of the conditions. Also throws if the sides have different numbers of outputs.
void check_bound(const Rule& rule);

}  // namespace tandem::rewrite
