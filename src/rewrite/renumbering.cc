#include "rewrite/renumbering.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace tandem::rewrite {

namespace {

constexpr auto kNone = std::numeric_limits<std::uint16_t>::max();

// Assigns numbers by first use.
class FirstUseNumbering {
 public:
  explicit FirstUseNumbering(const std::vector<std::string>& names)
      : names_(names), numbers_(names.size(), kNone) {}

  std::uint16_t operator()(std::uint16_t old) {
    auto& number = numbers_[old];
    if (number == kNone) {
      number = static_cast<std::uint16_t>(used_.size());
      used_.push_back(names_[old]);
    }
    return number;
  }

  std::vector<std::string> take_names() { return std::move(used_); }

 private:
  const std::vector<std::string>& names_;
  std::vector<std::uint16_t> numbers_;
  std::vector<std::string> used_;
};

class Renumbering {
 public:
  explicit Renumbering(const Rule& rule)
      : rule_(rule), tensors_(rule.tensors), symbols_(rule.symbols) {}

  Rule run() {
    Rule out;
    out.name = rule_.name;
    out.source = renumber_side(rule_.source);
    out.target = renumber_side(rule_.target);
    for (auto choice : rule_.choices) out.choices.push_back(symbols_(choice));
    out.conditions = rule_.conditions;
    for (auto& condition : out.conditions) renumber_expression(condition);
    out.tensors = tensors_.take_names();
    out.symbols = symbols_.take_names();
    return out;
  }

 private:
  Side renumber_side(const Side& in) {
    Side out;
    out.nodes.reserve(in.nodes.size());
    std::vector<PatternId> ids(in.nodes.size(), kNone);
    for (auto output : in.outputs) out.outputs.push_back(renumber_node(in, output, out, ids));
    return out;
  }

  // Adds a node after its inputs, because the text mentions inputs before attributes.
  PatternId renumber_node(const Side& in, PatternId id, Side& out, std::vector<PatternId>& ids) {
    if (ids[id] != kNone) return ids[id];
    PatternNode made = in.nodes[id];
    if (made.is_variable()) made.variable = tensors_(made.variable);
    for (auto& input : made.inputs) input = renumber_node(in, input, out, ids);
    for (auto& attribute : made.attributes) renumber_expression(attribute);
    return ids[id] = out.add(std::move(made));
  }

  void renumber_expression(Expression& e) {
    auto& numbers = e.operation == Operation::kSymbol ? symbols_ : tensors_;
    for (auto& v : e.variables) v = numbers(v);
    for (auto& operand : e.operands) renumber_expression(operand);
  }

  const Rule& rule_;
  FirstUseNumbering tensors_;
  FirstUseNumbering symbols_;
};

}  // namespace

Rule renumber_rule(const Rule& rule) { return Renumbering(rule).run(); }

bool are_equal_up_to_order(const Rule& a, const Rule& b) {
  return a.tensors.size() == b.tensors.size() && a.symbols.size() == b.symbols.size() &&
         a.source == b.source && a.target == b.target &&
         a.conditions.size() == b.conditions.size() &&
         std::ranges::is_permutation(a.choices, b.choices) &&
         std::ranges::is_permutation(a.conditions, b.conditions);
}

}  // namespace tandem::rewrite
