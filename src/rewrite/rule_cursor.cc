#include "rewrite/rule_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace tandem::rewrite {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

void RuleCursor::fail(const std::string& message, const std::string& hint) const {
  const auto rest = trim(text_.substr(std::min(at_, text_.size())));
  constexpr std::size_t kShown = 40;
  std::string place;
  if (at_ != 0) {
    place = rest.empty() ? " at the end" : fmt::format(" at '{}'", rest.substr(0, kShown));
  }
  throw UserError("rule", name_, message + place, hint);
}

void RuleCursor::skip_blanks() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
}

bool RuleCursor::take(std::string_view token) {
  skip_blanks();
  if (!text_.substr(at_).starts_with(token)) return false;
  at_ += token.size();
  return true;
}

void RuleCursor::expect(std::string_view token) {
  if (!take(token)) fail(fmt::format("expected '{}'", token));
}

bool RuleCursor::take_word(std::string_view word) {
  const auto before = at_;
  if (take(word) && (at_ == text_.size() || !is_word_character(text_[at_]))) return true;
  at_ = before;
  return false;
}

std::string_view RuleCursor::read_word() {
  skip_blanks();
  const auto begin = at_;
  while (at_ < text_.size() && is_word_character(text_[at_])) ++at_;
  if (begin == at_) fail("expected a name");
  return text_.substr(begin, at_ - begin);
}

std::string_view RuleCursor::read_variable() {
  expect("?");
  return read_word();
}

}  // namespace tandem::rewrite
