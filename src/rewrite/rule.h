// Rules: `source => target if conditions`, over graph patterns. Wherever a graph has the source and
// the conditions hold, the target computes the same tensors of the same types. Text form and
// examples: rewrite/rule_text.h.
//
// A side is a small graph. Its leaves are tensor variables; its operators are real ones, with an
// expression for every attribute. It has one output or several; source and target have as many, and
// output i of the one is output i of the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/op.h"
#include "rewrite/expression.h"

namespace tandem::rewrite {

using PatternId = std::uint16_t;

// An operator applied to earlier nodes of its side, or a tensor variable.
struct PatternNode {
  const ops::OpSpec* spec = nullptr;  // null: a variable
  std::uint16_t variable = 0;         // which tensor variable
  // In the order of spec->attributes, all of them: what the text does not mention has its default.
  std::vector<Expression> attributes = {};
  std::vector<PatternId> inputs = {};

  [[nodiscard]] bool is_variable() const { return spec == nullptr; }
  bool operator==(const PatternNode&) const = default;
};

// Of an operator, what the text does not mention.
const std::vector<Expression>& usual_attributes(const ops::OpSpec& spec);

// Nodes in topological order; equal subpatterns are one node.
struct Side {
  std::vector<PatternNode> nodes;
  std::vector<PatternId> outputs;

  // The operators, without the variables.
  [[nodiscard]] std::size_t operator_count() const;
  // `node`, or the node that is equal to it.
  PatternId add(PatternNode node);
  bool operator==(const Side&) const = default;
};

struct Rule {
  std::string name;
  std::vector<std::string> tensors;    // names of the tensor variables, without the '?'
  std::vector<std::string> symbols;    // names of those that stand for attributes
  std::vector<std::uint16_t> choices;  // symbols that the source leaves open, to be chosen
  Side source;
  Side target;
  std::vector<Expression> conditions;  // all must hold

  bool operator==(const Rule&) const = default;
};

// The same for rules that differ in names only: of the rule, its variables and symbols.
Hash hash_of(const Rule& rule);
Hash hash_of(const Side& side);

// Target to source, under the name given. Throws UserError("rule") where the target leaves a
// variable unbound.
Rule reversed(const Rule& rule, std::string name);

// Throws UserError("rule", name, ...) where a variable or symbol of the target or the conditions is
// not bound by the source, or the sides do not have as many outputs.
void check_bound(const Rule& rule);

}  // namespace tandem::rewrite
