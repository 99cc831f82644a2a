// Writes rules and their parts as text: the inverse of rule_reader.cc.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "ops/registry.h"
#include "rewrite/rule_grammar.h"
#include "rewrite/rule_text.h"

namespace tandem::rewrite {

namespace {

const Infix* find_infix(Operation operation) {
  const auto* at = std::ranges::find(kInfix, operation, &Infix::operation);
  return at == kInfix.end() ? nullptr : at;
}

std::string format_expression(const Rule& rule, const Expression& e, int precedence, bool tight);

std::string format_list(const Rule& rule, const Expression& e, bool tight) {
  std::vector<std::string> parts;
  for (auto v : e.variables) parts.push_back("?" + rule.tensors[v]);
  for (const auto& operand : e.operands)
    parts.push_back(format_expression(rule, operand, 0, tight));
  return join(parts, ", ");
}

// Returns the text of `e`. If `tight`, it has no blanks outside parentheses.
std::string format_expression(const Rule& rule, const Expression& e, int precedence, bool tight) {
  switch (e.operation) {
    case Operation::kLiteral:
      return to_text(e.literal);
    case Operation::kSymbol:
      return "?" + rule.symbols[e.variables[0]];
    case Operation::kList:
      return "[" + format_list(rule, e, false) + "]";
    case Operation::kNegate:
      return "-" + format_expression(rule, e.operands[0], kOfMinus, tight);
    case Operation::kNot:
      return "not " + format_expression(rule, e.operands[0], kOfNot, tight);
    default:
      break;
  }
  const auto* infix = find_infix(e.operation);
  if (infix == nullptr) {
    const auto* f = std::ranges::find(kFunctions, e.operation, &ExpressionFunction::operation);
    return fmt::format("{}({})", f->name, format_list(rule, e, false));
  }
  const bool wrapped = infix->precedence < precedence || tight;
  const auto out = fmt::format(
      "{} {} {}", format_expression(rule, e.operands[0], infix->precedence, false), infix->text,
      format_expression(rule, e.operands[1], infix->precedence + 1, false));
  return wrapped ? "(" + out + ")" : out;
}

std::string format_pattern(const Rule& rule, const Side& side, PatternId id) {
  const auto& node = side.nodes[id];
  if (node.is_variable()) return "?" + rule.tensors[node.variable];
  const auto& usual = get_default_attributes(*node.spec);
  std::string out = "(" + node.spec->name;
  for (auto input : node.inputs) out += " " + format_pattern(rule, side, input);
  for (std::size_t a = 0; a < node.attributes.size(); ++a) {
    if (node.attributes[a] == usual[a]) continue;
    out += fmt::format(" {}={}", node.spec->attributes[a].first,
                       format_expression(rule, node.attributes[a], 0, true));
  }
  return out + ")";
}

}  // namespace

std::string to_text(const Rule& rule, const Expression& expression) {
  return format_expression(rule, expression, 0, false);
}

std::string to_text(const Rule& rule, const Side& side) {
  std::vector<std::string> parts;
  parts.reserve(side.outputs.size());
  for (auto output : side.outputs) parts.push_back(format_pattern(rule, side, output));
  return join(parts, ", ");
}

std::string to_text(const Rule& rule) {
  auto out = fmt::format("{}: {} => {}", rule.name, to_text(rule, rule.source),
                         to_text(rule, rule.target));
  std::vector<std::string> parts;
  for (auto choice : rule.choices) parts.push_back("?" + rule.symbols[choice]);
  if (!parts.empty()) out += " choose " + join(parts, ", ");
  parts.clear();
  const int of_and = 3;
  for (const auto& condition : rule.conditions) {
    parts.push_back(format_expression(rule, condition, of_and, false));
  }
  if (!parts.empty()) out += " if " + join(parts, " and ");
  return out;
}

}  // namespace tandem::rewrite
