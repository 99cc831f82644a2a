// A position in the text of a rule, with the tokens that all readers of rules share.
#pragma once

#include <string>
#include <string_view>

namespace tandem::rewrite {

// Returns whether `c` is a letter, a digit or '_'.
bool is_word_character(char c);

class RuleCursor {
 protected:
  explicit RuleCursor(std::string_view text) : text_(text) {}
  RuleCursor(const RuleCursor&) = delete;
  RuleCursor& operator=(const RuleCursor&) = delete;
  ~RuleCursor() = default;

  // Throws UserError that includes the position.
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const;

  void skip_blanks();
  // Skips blanks, then skips `token` if it comes next. Returns whether it did.
  bool take(std::string_view token);
  void expect(std::string_view token);
  // Works like take(), but only if no letter follows `read_word`. Otherwise the position does not
  // change.
  bool take_word(std::string_view word);
  std::string_view read_word();
  std::string_view read_variable();  // returns the name after '?'

  std::string_view text_;
  std::size_t at_ = 0;
  std::string name_;  // name of the rule, for messages
};

}  // namespace tandem::rewrite
