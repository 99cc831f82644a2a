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

[[noreturn]] void fail(const std::string& message) {
  throw UserError("rule", "", message,
                  "a family is written {i<n: ?x{i}} ... for n in 2..8, with n up to " +
                      std::to_string(kMostOperands));
}

// Of the brace that the text begins with.
std::size_t closing(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  fail("a '{' is not closed");
}

std::string joined(const std::vector<std::string>& parts, std::string_view how) {
  if (how.empty()) return join(parts, " ");
  if (how == "+") return parts.empty() ? "0" : join(parts, "+");
  if (parts.empty()) fail(fmt::format("there is nothing to '{}'", how));
  if (how == "and") return join(parts, " and ");
  auto out = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i)
    out = fmt::format("({} {} {})", how, out, parts[i]);
  return out;
}

// One member of a family.
class Member {
 public:
  Member(std::string name, std::int64_t n) : numbers_{{std::move(name), n}} {}

  std::string expand(std::string_view text) {
    count(1 + text.size());
    std::string out;
    while (!text.empty()) {
      const auto open = std::min(text.find('{'), text.size());
      out += text.substr(0, open);
      text.remove_prefix(open);
      if (text.empty()) break;
      const auto close = closing(text);
      out += replacement(trim(text.substr(1, close - 1)));
      text.remove_prefix(close + 1);
    }
    return out;
  }

 private:
  // What stands for "n", or for "add i<n: TEMPLATE".
  std::string replacement(std::string_view text) {
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return std::to_string(number(text));
    const auto head = text.substr(0, colon);
    const auto less = std::min(head.find('<'), head.size());
    const auto before = words(head.substr(0, less));
    if (less == head.size() || before.empty() || before.size() > 2) {
      fail(fmt::format("'{}' is no 'i<n' nor 'add i<n'", head));
    }
    const std::string index(before.back());
    if (numbers_.contains(index)) fail(fmt::format("'{}' is counted twice", index));
    const auto end = number(trim(head.substr(less + 1)));
    std::vector<std::string> parts;
    for (std::int64_t i = 0; i < end; ++i) {
      numbers_[index] = i;
      parts.push_back(expand(trim(text.substr(colon + 1))));
    }
    numbers_.erase(index);
    auto out = joined(parts, before.size() == 2 ? before.front() : "");
    count(out.size());
    return out;
  }

  [[nodiscard]] std::int64_t number(std::string_view name) const {
    const auto at = numbers_.find(name);
    if (at == numbers_.end()) fail(fmt::format("nothing counts '{}'", name));
    return at->second;
  }

  // What is read and what is written: braces within braces multiply either.
  void count(std::size_t characters) {
    if (characters > left_) fail("the family has rules that are too long");
    left_ -= characters;
  }

  std::map<std::string, std::int64_t, std::less<>> numbers_;
  std::size_t left_ = std::size_t{1} << 20U;
};

struct Range {
  std::string name;
  std::int64_t from, to;
};

// "n in 2..8"
Range range_of(std::string_view text) {
  const auto parts = words(text);
  const auto dots = parts.size() == 3 ? parts[2].find("..") : std::string_view::npos;
  if (dots == std::string_view::npos || parts[1] != "in") {
    fail(fmt::format("'for {}' is not 'for n in 2..8'", text));
  }
  const auto from = parse_int(parts[2].substr(0, dots));
  const auto to = parse_int(parts[2].substr(dots + 2));
  if (!from || !to || *from < 1 || *to < *from || *to > kMostOperands) {
    fail(fmt::format("'{}' is no range", parts[2]));
  }
  return {std::string(parts[0]), *from, *to};
}

}  // namespace

std::vector<std::string> family_of(std::string_view text) {
  constexpr std::string_view kFor = " for ";
  const auto at = text.rfind(kFor);
  if (at == std::string_view::npos) {
    if (text.find('{') != std::string_view::npos) fail("there is a '{' and no 'for'");
    return {std::string(text)};
  }
  const auto range = range_of(trim(text.substr(at + kFor.size())));
  std::vector<std::string> out;
  for (auto n = range.from; n <= range.to; ++n) {
    out.push_back(Member(range.name, n).expand(text.substr(0, at)));
  }
  return out;
}

}  // namespace tandem::rewrite
