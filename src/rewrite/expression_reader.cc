#include "rewrite/expression_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tandem::rewrite {

namespace {

// Returns a list of literals as one literal, and any other list unchanged.
Expression fold_literals(Expression list) {
  const bool known = std::ranges::all_of(
      list.operands, [](const Expression& e) { return e.operation == Operation::kLiteral; });
  const auto value = known ? evaluate(list, {}) : std::nullopt;
  return value ? Expression{.literal = *value} : list;
}

}  // namespace

Expression ExpressionReader::read_attribute_value() {
  skip_blanks();
  const auto begin = at_;
  if (at_ < text_.size() && text_[at_] == '"') {
    const auto end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos) fail("missing closing quotation mark");
    at_ = end + 1;
    return {.literal = std::string(text_.substr(begin, at_ - begin))};
  }
  while (at_ < text_.size() && is_word_character(text_[at_])) ++at_;
  const bool ends = at_ == text_.size() || text_[at_] == ' ' || text_[at_] == ')';
  if (at_ != begin && ends) return {.literal = parse_value(text_.substr(begin, at_ - begin))};
  at_ = begin;
  tight_ = true;
  auto out = read_expression();
  tight_ = false;
  return out;
}

Expression ExpressionReader::read_expression(int precedence) {
  if (++depth_ > kMaxDepth) fail(fmt::format("expressions are nested deeper than {}", kMaxDepth));
  auto left = read_operand();
  while (const auto* infix = take_infix(precedence)) {
    auto right = read_expression(infix->precedence + 1);
    left = make_expression(infix->operation, std::move(left), std::move(right));
  }
  --depth_;
  return left;
}

const Infix* ExpressionReader::take_infix(int precedence) {
  // In an attribute a blank ends the expression: `axis=?a size=3`.
  if (tight_ && parentheses_ == 0 && at_ < text_.size() && text_[at_] == ' ') return nullptr;
  skip_blanks();
  for (const auto& infix : kInfix) {
    const bool is_word = is_word_character(infix.text[0]);
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

Expression ExpressionReader::read_operand() {
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
    return make_expression(Operation::kNegate, std::move(operand));
  }
  if (take_word("not")) {
    return make_expression(Operation::kNot, read_expression(kOfNot));
  }
  if (at_ < text_.size() && text_[at_] == '?') {
    const std::string name(read_variable());
    if (contains_name(rule_.tensors, name) || subpatterns_.contains(name)) {
      fail(fmt::format("?{} is used both as a tensor and as a symbol", name),
           "use dim(?x, 0), rank(?x) or similar for a tensor");
    }
    return {.operation = Operation::kSymbol, .variables = {find_or_add_name(rule_.symbols, name)}};
  }
  return read_number_or_call();
}

Expression ExpressionReader::read_list() {
  Expression out{.operation = Operation::kList};
  ++parentheses_;
  if (!take("]")) {
    do {
      out.operands.push_back(read_expression());
    } while (take(","));
    expect("]");
  }
  --parentheses_;
  return fold_literals(std::move(out));
}

Expression ExpressionReader::read_number_or_call() {
  const auto begin = at_;
  const auto take_letters = [&] {
    while (at_ < text_.size() && (is_word_character(text_[at_]) || text_[at_] == '.')) ++at_;
  };
  take_letters();
  if (begins_exponent(text_.substr(begin, at_ - begin))) {
    ++at_;
    take_letters();
  }
  const auto token = text_.substr(begin, at_ - begin);
  if (token.empty()) fail("expected a value");
  if (at_ == text_.size() || text_[at_] != '(') return {.literal = parse_value(token)};
  const auto* f = std::ranges::find(kFunctions, token, &ExpressionFunction::name);
  if (f == kFunctions.end()) {
    std::vector<std::string> names(kFunctions.size());
    std::ranges::transform(kFunctions, names.begin(),
                           [](const ExpressionFunction& known) { return std::string(known.name); });
    at_ = begin;
    fail(fmt::format("unknown function '{}'", token), "expected one of: " + join(names, ", "));
  }
  return read_call(*f);
}

// Returns whether the next sign belongs to the number, as in 1e-06.
bool ExpressionReader::begins_exponent(std::string_view token) const {
  if (token.size() < 2 || (token.back() != 'e' && token.back() != 'E')) return false;
  if (at_ + 1 >= text_.size() || (text_[at_] != '-' && text_[at_] != '+')) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return is_digit(text_[at_ + 1]) && parse_double(token.substr(0, token.size() - 1)).has_value();
}

Expression ExpressionReader::read_call(const ExpressionFunction& f) {
  Expression out{.operation = f.operation};
  expect("(");
  ++parentheses_;
  for (std::size_t i = 0; i < f.tensors + f.numbers; ++i) {
    if (i != 0) expect(",");
    if (i >= f.tensors) {
      out.operands.push_back(read_expression());
      continue;
    }
    const std::string name(read_variable());
    if (!contains_name(rule_.tensors, name)) {
      if (sides_are_read_) fail_no_tensor(f.name, name);
      early_.push_back({at_, f.name, name});
    }
    out.variables.push_back(find_or_add_name(rule_.tensors, name));
  }
  expect(")");
  --parentheses_;
  return out;
}

void ExpressionReader::fail_no_tensor(std::string_view function, const std::string& name) {
  fail(fmt::format("{} takes a tensor, but ?{} is not a tensor of the rule", function, name));
}

// Checks the tensors that functions mentioned before an operator did.
void ExpressionReader::check_early_calls() {
  sides_are_read_ = true;
  for (const auto& [at, function, name] : early_) {
    const auto number = find_or_add_name(rule_.tensors, name);
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

bool ExpressionReader::contains_name(const std::vector<std::string>& names,
                                     const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::uint16_t ExpressionReader::find_or_add_name(std::vector<std::string>& names,
                                                 const std::string& name) {
  const auto at = std::ranges::find(names, name) - names.begin();
  if (static_cast<std::size_t>(at) == names.size()) names.push_back(name);
  return static_cast<std::uint16_t>(at);
}

}  // namespace tandem::rewrite
