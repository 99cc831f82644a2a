// How far a rule's text is read: the tokens that its readers share.
#pragma once

#include <string>
#include <string_view>

namespace tandem::rewrite {

// Letters, digits and '_'.
bool is_letter(char c);

class RuleCursor {
 protected:
  explicit RuleCursor(std::string_view text) : text_(text) {}
  RuleCursor(const RuleCursor&) = delete;
  RuleCursor& operator=(const RuleCursor&) = delete;
  ~RuleCursor() = default;

  // Throws UserError with the place.
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const;

  void skip_blanks();
  // Goes on where the token stands here, behind blanks.
  bool take(std::string_view token);
  void expect(std::string_view token);
  // The same where no letter follows; stays where it is not so.
  bool take_word(std::string_view word);
  std::string_view word();
  std::string_view variable();  // the name behind '?'

  std::string_view text_;
  std::size_t at_ = 0;
  std::string name_;  // of the rule, for messages
};

}  // namespace tandem::rewrite
