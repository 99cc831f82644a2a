#include "rewrite/rule_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "base/lines.h"
#include "base/text.h"
#include "ops/registry.h"
#include "rewrite/rule_family.h"

namespace tandem::rewrite {

namespace {

constexpr std::size_t kMaxSideNodes = 256;  // of a side
constexpr std::size_t kMaxRead = 4096;      // patterns of a rule, written out
constexpr int kMaxDepth = 64;               // of patterns in patterns, of parentheses in conditions

struct Infix {
  std::string_view text;
  Operation operation;
  int precedence;
};
// Longer ones first, so that <= is not read as <.
constexpr std::array kInfix = {
    Infix{"or", Operation::kOr, 1},       Infix{"and", Operation::kAnd, 2},
    Infix{"==", Operation::kEqual, 4},    Infix{"!=", Operation::kNotEqual, 4},
    Infix{"<=", Operation::kAtMost, 4},   Infix{"<", Operation::kLess, 4},
    Infix{"+", Operation::kAdd, 5},       Infix{"-", Operation::kSubtract, 5},
    Infix{"*", Operation::kMultiply, 6},  Infix{"/", Operation::kDivide, 6},
    Infix{"%", Operation::kRemainder, 6},
};
constexpr int kOfNot = 3;
constexpr int kOfMinus = 7;

// Functions of one tensor or two, some with a number behind.
struct Function {
  std::string_view name;
  Operation operation;
  std::size_t tensors;
  std::size_t numbers;
};
constexpr std::array kFunctions = {
    Function{"dim", Operation::kDim, 1, 1},
    Function{"degree", Operation::kDegree, 1, 1},
    Function{"rank", Operation::kRank, 1, 0},
    Function{"replicas", Operation::kReplicas, 1, 0},
    Function{"partial", Operation::kPartial, 1, 0},
    Function{"same_shape", Operation::kSameShape, 2, 0},
    Function{"divides", Operation::kDivides, 0, 2},
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_name(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || c == '-' || c == '.'; });
}

// Reads one rule. Where a variable stands tells what it is: alone among the inputs of an operator a
// tensor, in an expression a symbol, unless a function takes a tensor there.
class Reader {
 public:
  explicit Reader(std::string_view line) : text_(line) {}

  std::vector<Rule> run() {
    const auto colon = text_.find(':');
    if (colon == std::string_view::npos) fail("expected 'name: source => target'");
    rule_.name = std::string(trim(text_.substr(0, colon)));
    if (!is_name(rule_.name)) {
      fail(fmt::format("'{}' is no name for a rule", rule_.name),
           "names have letters, digits, '-' and '.'");
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
    check_early();
    if (at_ != clauses.where && at_ < clauses.choose)
      fail("expected 'where', 'choose', 'if' or the end");
    at_ = clauses.choose;
    if (take_word("choose")) read_choices();
    if (take_word("if")) rule_.conditions.push_back(read_expression());
    skip_blanks();
    if (at_ != text_.size()) fail("expected the end of the rule");
    split_conditions();
    std::vector<Rule> out;
    check_bound(rule_);
    out.push_back(rule_);
    if (both) out.push_back(reversed(rule_, rule_.name + "-reversed"));
    return out;
  }

 private:
  struct Clauses {
    std::size_t where, choose;
  };

  // Where the clauses begin, at `begin` or after it; subpatterns are read first, as the sides
  // mention them.
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

  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const {
    const auto rest = trim(text_.substr(std::min(at_, text_.size())));
    constexpr std::size_t kShown = 40;
    std::string place;
    if (at_ != 0) {
      place = rest.empty() ? " at the end" : fmt::format(" at '{}'", rest.substr(0, kShown));
    }
    throw UserError("rule", rule_.name, message + place, hint);
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("expected '{}'", token));
  }
  bool take_word(std::string_view word) {
    const auto before = at_;
    if (take(word) && (at_ == text_.size() || !is_letter(text_[at_]))) return true;
    at_ = before;
    return false;
  }
  std::string_view word() {
    skip_blanks();
    const auto begin = at_;
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    if (begin == at_) fail("expected a name");
    return text_.substr(begin, at_ - begin);
  }
  std::string_view variable() {
    expect("?");
    return word();
  }

  // --- Patterns ---------------------------------------------------------------------------------

  Side read_side() {
    Side side;
    do {
      side.outputs.push_back(read_pattern(side, 0));
    } while (take(","));
    return side;
  }

  PatternId read_pattern(Side& side, int depth) {
    if (depth > kMaxDepth) fail(fmt::format("patterns nested deeper than {}", kMaxDepth));
    // A named subpattern counts wherever it is mentioned: rules are also printed so.
    if (++read_ > kMaxRead) fail(fmt::format("more than {} patterns written out", kMaxRead));
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '?') return read_leaf(side, depth);
    expect("(");
    const auto name = word();
    PatternNode node;
    try {
      node.spec = &ops::find_op(name);
    } catch (const UserError& e) {
      fail(e.message, e.hint);
    }
    if (node.spec->role == ops::Role::kSource && name != "constant") {
      fail(fmt::format("'{}' does not stand in rules", name), "a variable ?x is any tensor");
    }
    for (const auto& [attribute, value] : node.spec->attributes) {
      node.attributes.push_back({.literal = parse_value(value)});
    }
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
    const std::string name(variable());
    if (const auto named = subpatterns_.find(name); named != subpatterns_.end()) {
      const auto back = at_;
      at_ = named->second;
      const auto out = read_pattern(side, depth + 1);
      at_ = back;
      return out;
    }
    if (find(rule_.symbols, name)) fail(fmt::format("?{} is a tensor and a symbol", name));
    return add(side, {.variable = number_of(rule_.tensors, name)});
  }

  // Subpatterns are remembered by where they begin, and read again where they are mentioned.
  void read_where() {
    do {
      const std::string name(variable());
      expect("=");
      skip_blanks();
      if (!subpatterns_.emplace(name, at_).second) fail(fmt::format("?{} is named twice", name));
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
    const auto name = word();
    const auto& known = node.spec->attributes;
    const auto i = static_cast<std::size_t>(
        std::ranges::find(known, name, &std::pair<std::string, std::string>::first) -
        known.begin());
    if (i == known.size()) {
      std::vector<std::string> names;
      for (const auto& [n, v] : known) names.push_back(n);
      fail(fmt::format("{} has no attribute '{}'", node.spec->name, name),
           names.empty() ? "it has none" : "it has: " + join(names, ", "));
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

  // A bare word, a quoted text, or an expression without blanks outside parentheses.
  Expression read_attribute_value() {
    skip_blanks();
    const auto begin = at_;
    if (at_ < text_.size() && text_[at_] == '"') {
      const auto end = text_.find('"', at_ + 1);
      if (end == std::string_view::npos) fail("a quotation mark is missing");
      at_ = end + 1;
      return {.literal = std::string(text_.substr(begin, at_ - begin))};
    }
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    const bool ends = at_ == text_.size() || text_[at_] == ' ' || text_[at_] == ')';
    if (at_ != begin && ends) return {.literal = parse_value(text_.substr(begin, at_ - begin))};
    at_ = begin;
    tight_ = true;
    auto out = read_expression();
    tight_ = false;
    return out;
  }

  // --- Expressions ------------------------------------------------------------------------------

  Expression read_expression(int precedence = 0) {
    if (++depth_ > kMaxDepth) fail(fmt::format("expressions nested deeper than {}", kMaxDepth));
    auto left = read_operand();
    while (const auto* infix = take_infix(precedence)) {
      auto right = read_expression(infix->precedence + 1);
      left = {.operation = infix->operation, .operands = {std::move(left), std::move(right)}};
    }
    --depth_;
    return left;
  }

  const Infix* take_infix(int precedence) {
    // `axis=?a size=3`: in an attribute a blank ends the expression.
    if (tight_ && parentheses_ == 0 && at_ < text_.size() && text_[at_] == ' ') return nullptr;
    skip_blanks();
    for (const auto& infix : kInfix) {
      const bool is_word = is_letter(infix.text[0]);
      if (infix.precedence < precedence || !text_.substr(at_).starts_with(infix.text)) continue;
      if (is_word) {
        if (take_word(infix.text)) return &infix;
        continue;
      }
      at_ += infix.text.size();
      return &infix;
    }
    return nullptr;
  }

  Expression read_operand() {
    skip_blanks();
    if (take("(")) {
      ++parentheses_;
      auto out = read_expression();
      expect(")");
      --parentheses_;
      return out;
    }
    if (take("[")) return read_list();
    if (take("-")) {
      auto operand = read_expression(kOfMinus);
      if (auto* i = std::get_if<std::int64_t>(&operand.literal);
          i != nullptr && operand.operation == Operation::kLiteral) {
        return {.literal = -*i};
      }
      return {.operation = Operation::kNegate, .operands = {std::move(operand)}};
    }
    if (take_word("not")) {
      return {.operation = Operation::kNot, .operands = {read_expression(kOfNot)}};
    }
    if (at_ < text_.size() && text_[at_] == '?') {
      const std::string name(variable());
      if (find(rule_.tensors, name) || subpatterns_.contains(name)) {
        fail(fmt::format("?{} is a tensor and a symbol", name),
             "of a tensor, write dim(?x, 0), rank(?x) or the like");
      }
      return {.operation = Operation::kSymbol, .variables = {number_of(rule_.symbols, name)}};
    }
    return read_number_or_call();
  }

  Expression read_list() {
    Expression out{.operation = Operation::kList};
    ++parentheses_;
    if (!take("]")) {
      do {
        out.operands.push_back(read_expression());
      } while (take(","));
      expect("]");
    }
    --parentheses_;
    return folded(std::move(out));
  }

  // A list of numbers is a literal.
  static Expression folded(Expression list) {
    const bool known = std::ranges::all_of(
        list.operands, [](const Expression& e) { return e.operation == Operation::kLiteral; });
    const auto value = known ? evaluate(list, {}) : std::nullopt;
    return value ? Expression{.literal = *value} : list;
  }

  Expression read_number_or_call() {
    const auto begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || text_[at_] == '.')) ++at_;
    const auto token = text_.substr(begin, at_ - begin);
    if (token.empty()) fail("expected a value");
    if (at_ == text_.size() || text_[at_] != '(') return {.literal = parse_value(token)};
    const auto* f = std::ranges::find(kFunctions, token, &Function::name);
    if (f == kFunctions.end()) {
      std::vector<std::string> names(kFunctions.size());
      std::ranges::transform(kFunctions, names.begin(),
                             [](const Function& known) { return std::string(known.name); });
      at_ = begin;
      fail(fmt::format("no function '{}'", token), "there are: " + join(names, ", "));
    }
    return read_call(*f);
  }

  Expression read_call(const Function& f) {
    Expression out{.operation = f.operation};
    expect("(");
    ++parentheses_;
    for (std::size_t i = 0; i < f.tensors + f.numbers; ++i) {
      if (i != 0) expect(",");
      if (i >= f.tensors) {
        out.operands.push_back(read_expression());
        continue;
      }
      const std::string name(variable());
      if (!find(rule_.tensors, name)) {
        if (sides_are_read_) fail_no_tensor(f.name, name);
        early_.push_back({at_, f.name, name});
      }
      out.variables.push_back(number_of(rule_.tensors, name));
    }
    expect(")");
    --parentheses_;
    return out;
  }

  [[noreturn]] void fail_no_tensor(std::string_view function, const std::string& name) {
    fail(fmt::format("{} takes a tensor, and ?{} is none of the rule", function, name));
  }

  // What functions took for tensors before an operator had them.
  void check_early() {
    sides_are_read_ = true;
    for (const auto& [at, function, name] : early_) {
      const auto number = number_of(rule_.tensors, name);
      const auto has = [&](const Side& side) {
        return std::ranges::any_of(side.nodes, [&](const PatternNode& node) {
          return node.is_variable() && node.variable == number;
        });
      };
      if (has(rule_.source) || has(rule_.target)) continue;
      at_ = at;
      fail_no_tensor(function, name);
    }
  }

  void read_choices() {
    do {
      rule_.choices.push_back(number_of(rule_.symbols, std::string(variable())));
    } while (take(","));
  }

  // `a and b` is two conditions.
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

  static bool find(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  }
  static std::uint16_t number_of(std::vector<std::string>& names, const std::string& name) {
    const auto at = std::ranges::find(names, name) - names.begin();
    if (static_cast<std::size_t>(at) == names.size()) names.push_back(name);
    return static_cast<std::uint16_t>(at);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t read_ = 0;
  int parentheses_ = 0;
  int depth_ = 0;
  bool tight_ = false;  // in an attribute, where blanks separate
  struct Early {
    std::size_t at;
    std::string_view function;
    std::string name;
  };
  std::vector<Early> early_;  // dim(?x, 0) before ?x was seen
  bool sides_are_read_ = false;
  Rule rule_;
  std::map<std::string, std::size_t> subpatterns_;
};

// --- Printing -----------------------------------------------------------------------------------

const Infix* infix_of(Operation operation) {
  const auto* at = std::ranges::find(kInfix, operation, &Infix::operation);
  return at == kInfix.end() ? nullptr : at;
}

std::string text_of(const Rule& rule, const Expression& e, int precedence, bool tight);

std::string list_text(const Rule& rule, const Expression& e, bool tight) {
  std::vector<std::string> parts;
  for (auto v : e.variables) parts.push_back("?" + rule.tensors[v]);
  for (const auto& operand : e.operands) parts.push_back(text_of(rule, operand, 0, tight));
  return join(parts, ", ");
}

// `tight`: without blanks around what is not in parentheses.
std::string text_of(const Rule& rule, const Expression& e, int precedence, bool tight) {
  switch (e.operation) {
    case Operation::kLiteral:
      return to_text(e.literal);
    case Operation::kSymbol:
      return "?" + rule.symbols[e.variables[0]];
    case Operation::kList:
      return "[" + list_text(rule, e, false) + "]";
    case Operation::kNegate:
      return "-" + text_of(rule, e.operands[0], kOfMinus, tight);
    case Operation::kNot:
      return "not " + text_of(rule, e.operands[0], kOfNot, tight);
    default:
      break;
  }
  const auto* infix = infix_of(e.operation);
  if (infix == nullptr) {
    const auto* f = std::ranges::find(kFunctions, e.operation, &Function::operation);
    return fmt::format("{}({})", f->name, list_text(rule, e, false));
  }
  const bool wrapped = infix->precedence < precedence || tight;
  const auto out =
      fmt::format("{} {} {}", text_of(rule, e.operands[0], infix->precedence, false), infix->text,
                  text_of(rule, e.operands[1], infix->precedence + 1, false));
  return wrapped ? "(" + out + ")" : out;
}

std::string pattern_text(const Rule& rule, const Side& side, PatternId id) {
  const auto& node = side.nodes[id];
  if (node.is_variable()) return "?" + rule.tensors[node.variable];
  std::string out = "(" + node.spec->name;
  for (auto input : node.inputs) out += " " + pattern_text(rule, side, input);
  for (std::size_t a = 0; a < node.attributes.size(); ++a) {
    const auto& [name, initial] = node.spec->attributes[a];
    if (node.attributes[a] == Expression{.literal = parse_value(initial)}) continue;
    out += fmt::format(" {}={}", name, text_of(rule, node.attributes[a], 0, true));
  }
  return out + ")";
}

// A line without its comment; a '#' inside quotation marks is none.
std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == '#' && !quoted) return line.substr(0, i);
  }
  return line;
}

}  // namespace

std::string to_text(const Rule& rule, const Expression& expression) {
  return text_of(rule, expression, 0, false);
}

std::string to_text(const Rule& rule, const Side& side) {
  std::vector<std::string> parts;
  parts.reserve(side.outputs.size());
  for (auto output : side.outputs) parts.push_back(pattern_text(rule, side, output));
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
    parts.push_back(text_of(rule, condition, of_and, false));
  }
  if (!parts.empty()) out += " if " + join(parts, " and ");
  return out;
}

std::vector<Rule> parse_rule(std::string_view line) { return Reader(trim(line)).run(); }

void for_each_rule(std::string_view text, const std::string& source,
                   const std::function<void(Rule)>& visit) {
  std::map<std::string, int, std::less<>> lines;  // by name, where the rule stands
  std::string pending;
  int begin = 0;
  const auto finish = [&] {
    if (pending.empty()) return;
    const auto where = fmt::format("{}:{}", source, begin);
    std::vector<Rule> found;
    try {
      for (const auto& line : family_of(pending)) {
        for (auto& rule : parse_rule(line)) {
          const auto [known, fresh] = lines.emplace(rule.name, begin);
          if (!fresh) {
            throw UserError("rule", rule.name,
                            fmt::format("the name is taken by the rule of line {}", known->second));
          }
          found.push_back(std::move(rule));
        }
      }
    } catch (const UserError& e) {
      throw UserError("rule", where, e.where.empty() ? e.message : e.where + ": " + e.message,
                      e.hint);
    }
    pending.clear();
    for (auto& rule : found) visit(std::move(rule));
  };
  int number = 0;
  while (!text.empty()) {
    ++number;
    const auto line = without_comment(take_line(text));
    if (trim(line).empty()) continue;
    const bool continues = line[0] == ' ' || line[0] == '\t';
    if (!continues) {
      finish();
      begin = number;
    }
    if (!pending.empty()) pending += ' ';
    pending += trim(line);
  }
  finish();
}

std::vector<Rule> parse_rules(std::string_view text, const std::string& source) {
  std::vector<Rule> out;
  for_each_rule(text, source, [&](Rule rule) { out.push_back(std::move(rule)); });
  return out;
}

}  // namespace tandem::rewrite
