// Reads the expressions of a rule: attributes and conditions. A variable in an expression is a
// symbol, unless a function takes a tensor there.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/rule.h"
#include "rewrite/rule_cursor.h"
#include "rewrite/rule_grammar.h"

namespace tandem::rewrite {

class ExpressionReader : protected RuleCursor {
 protected:
  static constexpr int kMaxDepth = 64;  // for nested patterns and nested parentheses

  explicit ExpressionReader(std::string_view text) : RuleCursor(text) {}

  // Reads an expression up to the first operator whose precedence is less than `precedence`.
  Expression read_expression(int precedence = 0);
  // Reads a bare word, a quoted text, or an expression without blanks outside parentheses.
  Expression read_attribute_value();
  // Checks that the tensors in functions belong to the rule. Call it once the sides are read.
  void check_early_calls();

  // Returns whether `names` contains `name`.
  static bool contains_name(const std::vector<std::string>& names, const std::string& name);
  // Returns the index of `name` in `names`. Appends it if it is new.
  static std::uint16_t find_or_add_name(std::vector<std::string>& names, const std::string& name);

  Rule rule_;
  // Positions in the text where named subpatterns begin.
  std::map<std::string, std::size_t> subpatterns_;

 private:
  const Infix* take_infix(int precedence);
  Expression read_operand();
  Expression read_list();
  Expression read_number_or_call();
  [[nodiscard]] bool begins_exponent(std::string_view token) const;
  Expression read_call(const ExpressionFunction& f);
  [[noreturn]] void fail_no_tensor(std::string_view function, const std::string& name);

  int parentheses_ = 0;
  int depth_ = 0;
  bool tight_ = false;  // true in an attribute, where blanks separate
  struct Early {
    std::size_t at;
    std::string_view function;
    std::string name;
  };
  std::vector<Early> early_;  // calls such as dim(?x, 0) before ?x was read
  bool sides_are_read_ = false;
};

}  // namespace tandem::rewrite
