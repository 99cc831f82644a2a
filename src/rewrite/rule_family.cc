#include "rewrite/rule_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace tandem::rewrite {

namespace {

constexpr std::int64_t kMostOperands = 64;
constexpr std::int64_t kLargestNumber = 1'000'000;

[[noreturn]] void fail(const std::string& message) {
  throw UserError("rule", "", message,
                  "write a family like {i<n: ?x{i}} ... for n in 2..8, with n of at most " +
                      std::to_string(kMostOperands));
}

// Returns the position of the brace that closes the first character of `text`.
std::size_t find_closing_brace(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  fail("'{' is not closed");
}

std::string join_copies(const std::vector<std::string>& parts, std::string_view how) {
  if (how.empty()) return join(parts, " ");
  if (how == "+") return parts.empty() ? "0" : join(parts, "+");
  if (parts.empty()) fail(fmt::format("there is nothing to '{}'", how));
  if (how == "and") return join(parts, " and ");
  auto out = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i)
    out = fmt::format("({} {} {})", how, out, parts[i]);
  return out;
}

// Evaluates an expression of numbers and named numbers with + * /, such as "(k+1)*n/4". A quotient
// is rounded down.
class Number {
 public:
  using Names = std::map<std::string, std::int64_t, std::less<>>;

  static std::int64_t evaluate(std::string_view text, const Names& names) {
    Number at(text, names);
    const auto out = at.parse_sum();
    if (!at.rest_.empty()) fail(fmt::format("'{}' is not a number", text));
    return out;
  }

 private:
  Number(std::string_view text, const Names& names)
      : all_(text), rest_(trim(text)), names_(names) {}

  std::int64_t parse_sum() {
    auto out = parse_product();
    while (take('+')) out = check_range(out + parse_product());
    return out;
  }

  std::int64_t parse_product() {
    auto out = parse_atom();
    while (true) {
      if (take('*')) {
        out = check_range(out * parse_atom());
      } else if (take('/')) {
        const auto by = parse_atom();
        if (by == 0) fail(fmt::format("'{}' divides by 0", all_));
        out /= by;
      } else {
        return out;
      }
    }
  }

  std::int64_t parse_atom() {
    if (take('(')) {
      if (++depth_ > kDeepest) fail(fmt::format("'{}' is nested too deeply", all_));
      const auto out = parse_sum();
      if (!take(')')) fail(fmt::format("a '(' in '{}' is not closed", all_));
      --depth_;
      return out;
    }
    const auto word = rest_.substr(0, std::min(rest_.find_first_of("+*/() "), rest_.size()));
    rest_ = trim(rest_.substr(word.size()));
    if (const auto literal = parse_int(word)) return check_range(*literal);
    const auto at = names_.find(word);
    if (at == names_.end()) fail(fmt::format("unknown variable '{}'", word));
    return at->second;
  }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_ = trim(rest_.substr(1));
    return true;
  }

  std::int64_t check_range(std::int64_t n) const {
    if (n < 0 || n > kLargestNumber) fail(fmt::format("'{}' is out of range", all_));
    return n;
  }

  static constexpr int kDeepest = 16;
  std::string_view all_;
  std::string_view rest_;
  const Names& names_;
  int depth_ = 0;
};

// The member of a family for one n.
class Member {
 public:
  Member(std::string name, std::int64_t n) : numbers_{{std::move(name), n}} {}

  std::string expand(std::string_view text) {
    count_characters(1 + text.size());
    std::string out;
    while (!text.empty()) {
      const auto open = std::min(text.find('{'), text.size());
      out += text.substr(0, open);
      text.remove_prefix(open);
      if (text.empty()) break;
      const auto close = find_closing_brace(text);
      out += expand_braces(trim(text.substr(1, close - 1)));
      text.remove_prefix(close + 1);
    }
    return out;
  }

 private:
  // Returns the expansion of "n" or of "add i<n: TEMPLATE".
  std::string expand_braces(std::string_view text) {
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return std::to_string(evaluate_number(text));
    const auto range = parse_count(text.substr(0, colon));
    if (numbers_.contains(range.index))
      fail(fmt::format("'{}' is used as a counter twice", range.index));
    std::vector<std::string> parts;
    for (auto i = range.from; i < range.to; ++i) {
      numbers_[range.index] = i;
      parts.push_back(expand(trim(text.substr(colon + 1))));
    }
    numbers_.erase(range.index);
    auto out = join_copies(parts, range.how);
    count_characters(out.size());
    return out;
  }

  // A range: "add i<n", "i<n" or "n/2<=i<n".
  struct Count {
    std::string how, index;
    std::int64_t from = 0, to = 0;
  };
  [[nodiscard]] Count parse_count(std::string_view head) const {
    const auto not_one = [&] { fail(fmt::format("'{}' is neither 'i<n' nor 'add i<n'", head)); };
    Count out;
    auto rest = trim(head);
    const auto first = rest.substr(0, std::min(rest.find(' '), rest.size()));
    if (first == "+" || (first.size() < rest.size() && first.find('<') == std::string_view::npos)) {
      out.how = first;
      rest = trim(rest.substr(first.size()));
    }
    const auto from = rest.find("<=");
    if (from != std::string_view::npos) {
      out.from = evaluate_number(rest.substr(0, from));
      rest = trim(rest.substr(from + 2));
    }
    const auto less = rest.find('<');
    if (less == std::string_view::npos) not_one();
    out.index = trim(rest.substr(0, less));
    if (split_words(out.index).size() != 1) not_one();
    out.to = evaluate_number(rest.substr(less + 1));
    return out;
  }

  [[nodiscard]] std::int64_t evaluate_number(std::string_view text) const {
    return Number::evaluate(text, numbers_);
  }

  // Limits the characters that are read and written, because nested braces multiply both.
  void count_characters(std::size_t characters) {
    if (characters > left_) fail("the rules of the family are too long");
    left_ -= characters;
  }

  Number::Names numbers_;
  std::size_t left_ = std::size_t{1} << 20U;
};

struct FamilyRange {
  std::string name;
  std::int64_t from, to;
};

// Parses a range such as "n in 2..8".
FamilyRange parse_range(std::string_view text) {
  const auto parts = split_words(text);
  const auto dots = parts.size() == 3 ? parts[2].find("..") : std::string_view::npos;
  if (dots == std::string_view::npos || parts[1] != "in") {
    fail(fmt::format("'for {}' does not have the form 'for n in 2..8'", text));
  }
  const auto from = parse_int(parts[2].substr(0, dots));
  const auto to = parse_int(parts[2].substr(dots + 2));
  if (!from || !to || *from < 1 || *to < *from || *to > kMostOperands) {
    fail(fmt::format("'{}' is not a valid range", parts[2]));
  }
  return {std::string(parts[0]), *from, *to};
}

}  // namespace

std::vector<std::string> expand_family(std::string_view text) {
  constexpr std::string_view kFor = " for ";
  const auto at = text.rfind(kFor);
  if (at == std::string_view::npos) {
    if (text.find('{') != std::string_view::npos) fail("'{' requires a 'for'");
    return {std::string(text)};
  }
  const auto range = parse_range(trim(text.substr(at + kFor.size())));
  std::vector<std::string> out;
  for (auto n = range.from; n <= range.to; ++n) {
    out.push_back(Member(range.name, n).expand(text.substr(0, at)));
  }
  return out;
}

}  // namespace tandem::rewrite
