#include "rewrite/rule_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "ops/registry.h"
#include "rewrite/expression_reader.h"

namespace tandem::rewrite {

namespace {

constexpr std::size_t kMaxSideNodes = 256;  // limit for one side
constexpr std::size_t kMaxRead = 4096;      // limit for the patterns of a rule, written out

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_word_character(c) || c == '-' || c == '.';
  });
}

// Reads one rule. A variable alone among the inputs of an operator is a tensor. ExpressionReader
// decides about a variable in an expression.
class RuleTextReader : ExpressionReader {
 public:
  explicit RuleTextReader(std::string_view line) : ExpressionReader(line) {}

  std::vector<Rule> run() {
    const auto colon = text_.find(':');
    if (colon == std::string_view::npos) fail("expected 'name: source => target'");
    name_ = trim(text_.substr(0, colon));
    rule_.name = name_;
    if (!is_name(rule_.name)) {
      fail(fmt::format("'{}' is not a valid rule name", rule_.name),
           "names consist of letters, digits, '-' and '.'");
    }
    at_ = colon + 1;
    const auto clauses = find_clauses(at_);
    at_ = clauses.where;
    if (take_word("where")) read_where();
    at_ = colon + 1;
    rule_.source = read_side();
    const bool both = take("<=>");
    if (!both && !take("=>")) fail("expected '=>' or '<=>'");
    rule_.target = read_side();
    check_early_calls();
    if (at_ != clauses.where && at_ < clauses.choose)
      fail("expected 'where', 'choose', 'if' or the end of the rule");
    at_ = clauses.choose;
    if (take_word("choose")) read_choices();
    if (take_word("if")) rule_.conditions.push_back(read_expression());
    skip_blanks();
    if (at_ != text_.size()) fail("expected the end of the rule");
    split_conditions();
    std::vector<Rule> out;
    check_bound(rule_);
    out.push_back(rule_);
    if (both) out.push_back(reverse_rule(rule_, rule_.name + "-reversed"));
    return out;
  }

 private:
  struct Clauses {
    std::size_t where, choose;
  };

  // Returns the positions of the clauses after `begin`. Subpatterns are read first, because the
  // sides mention them.
  [[nodiscard]] Clauses find_clauses(std::size_t begin) const {
    const auto find = [&](std::string_view word) {
      for (auto i = text_.find(word, begin + 1); i != std::string_view::npos;
           i = text_.find(word, i + 1)) {
        const auto end = i + word.size();
        const bool begins = text_[i - 1] == ' ' || text_[i - 1] == ')';
        if (begins && end < text_.size() && text_[end] == ' ') return i;
      }
      return text_.size();
    };
    const auto choose = std::min(find("choose"), find("if"));
    return {std::min(find("where"), choose), choose};
  }

  Side read_side() {
    Side side;
    do {
      side.outputs.push_back(read_pattern(side, 0));
    } while (take(","));
    return side;
  }

  PatternId read_pattern(Side& side, int depth) {
    if (depth > kMaxDepth) fail(fmt::format("patterns are nested deeper than {}", kMaxDepth));
    // A named subpattern counts at each mention, because rules are printed with it written out.
    if (++read_ > kMaxRead) fail(fmt::format("more than {} patterns in total", kMaxRead));
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '?') return read_leaf(side, depth);
    expect("(");
    const auto name = read_word();
    PatternNode node;
    try {
      node.spec = &ops::find_op(name);
    } catch (const UserError& e) {
      fail(e.message, e.hint);
    }
    if (node.spec->role == ops::Role::kSource && name != "constant") {
      fail(fmt::format("'{}' is not allowed in rules", name),
           "use a variable such as ?x, which matches any tensor");
    }
    node.attributes = get_default_attributes(*node.spec);
    std::set<std::size_t> given;
    while (!take(")")) {
      skip_blanks();
      if (at_ == text_.size()) fail("expected ')'");
      if (text_[at_] == '?' || text_[at_] == '(') {
        node.inputs.push_back(read_pattern(side, depth + 1));
      } else {
        read_attribute(node, given);
      }
    }
    return add(side, std::move(node));
  }

  PatternId add(Side& side, PatternNode node) {
    if (side.nodes.size() >= kMaxSideNodes)
      fail(fmt::format("more than {} operators", kMaxSideNodes));
    return side.add(std::move(node));
  }

  PatternId read_leaf(Side& side, int depth) {
    const std::string name(read_variable());
    if (const auto named = subpatterns_.find(name); named != subpatterns_.end()) {
      const auto back = at_;
      at_ = named->second;
      const auto out = read_pattern(side, depth + 1);
      at_ = back;
      return out;
    }
    if (contains_name(rule_.symbols, name))
      fail(fmt::format("?{} is used both as a tensor and as a symbol", name));
    return add(side, {.variable = find_or_add_name(rule_.tensors, name)});
  }

  // Stores where each subpattern begins; it is read again wherever it is mentioned.
  void read_where() {
    do {
      const std::string name(read_variable());
      expect("=");
      skip_blanks();
      if (!subpatterns_.emplace(name, at_).second) fail(fmt::format("?{} is defined twice", name));
      skip_pattern();
    } while (take(","));
  }
  void skip_pattern() {
    int depth = 0;
    do {
      if (at_ >= text_.size()) fail("expected ')'");
      if (text_[at_] == '(') ++depth;
      if (text_[at_] == ')') --depth;
      ++at_;
    } while (depth > 0);
  }

  void read_attribute(PatternNode& node, std::set<std::size_t>& given) {
    const auto name = read_word();
    const auto& known = node.spec->attributes;
    const auto i = static_cast<std::size_t>(
        std::ranges::find(known, name, &std::pair<std::string, std::string>::first) -
        known.begin());
    if (i == known.size()) {
      std::vector<std::string> names;
      for (const auto& [n, v] : known) names.push_back(n);
      fail(fmt::format("{} has no attribute '{}'", node.spec->name, name),
           names.empty() ? "it has no attributes" : "its attributes: " + join(names, ", "));
    }
    if (!given.insert(i).second) fail(fmt::format("attribute '{}' is given twice", name));
    expect("=");
    node.attributes[i] = read_attribute_value();
    if (node.attributes[i].operation == Operation::kLiteral) {
      check_literal(*node.spec, known[i].first, node.attributes[i].literal);
    }
  }

  void check_literal(const ops::OpSpec& spec, const std::string& name, const Value& value) const {
    try {
      (void)ops::parse_op(spec, {{name, to_text(value)}});
    } catch (const UserError& e) {
      fail(e.message, e.hint);
    }
  }

  void read_choices() {
    do {
      rule_.choices.push_back(find_or_add_name(rule_.symbols, std::string(read_variable())));
    } while (take(","));
  }

  // Splits `a and b` into two conditions.
  void split_conditions() {
    for (std::size_t i = 0; i < rule_.conditions.size();) {
      if (rule_.conditions[i].operation != Operation::kAnd) {
        ++i;
        continue;
      }
      auto parts = std::move(rule_.conditions[i].operands);
      rule_.conditions[i] = std::move(parts[0]);
      rule_.conditions.insert(rule_.conditions.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                              std::move(parts[1]));
    }
  }

  std::size_t read_ = 0;
};

}  // namespace

std::vector<Rule> read_rule(std::string_view line) { return RuleTextReader(line).run(); }

}  // namespace tandem::rewrite
