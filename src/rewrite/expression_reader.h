// Reads the expressions of a rule: attributes and conditions. A variable in one is a symbol, unless
// a function takes a tensor there.
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
  static constexpr int kMaxDepth = 64;  // of patterns in patterns, of parentheses

  explicit ExpressionReader(std::string_view text) : RuleCursor(text) {}

  // What binds less than `precedence` is left.
  Expression read_expression(int precedence = 0);
  // A bare word, a quoted text, or an expression without blanks outside parentheses.
  Expression read_attribute_value();
  // Once the sides are read: are the tensors that functions took those of the rule?
  void check_early();

  static bool find(const std::vector<std::string>& names, const std::string& name);
  // Appends it where it is new.
  static std::uint16_t number_of(std::vector<std::string>& names, const std::string& name);

  Rule rule_;
  std::map<std::string, std::size_t> subpatterns_;  // by name, where they begin

 private:
  const Infix* take_infix(int precedence);
  Expression read_operand();
  Expression read_list();
  Expression read_number_or_call();
  [[nodiscard]] bool begins_exponent(std::string_view token) const;
  Expression read_call(const Function& f);
  [[noreturn]] void fail_no_tensor(std::string_view function, const std::string& name);

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
};

}  // namespace tandem::rewrite
