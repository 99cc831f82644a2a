#include "rewrite/rule_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/lines.h"
#include "base/text.h"
#include "rewrite/rule_family.h"
#include "rewrite/rule_reader.h"

namespace tandem::rewrite {

namespace {

// Returns `line` without its comment. A '#' inside quotation marks does not begin one.
std::string_view strip_comment(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == '#' && !quoted) return line.substr(0, i);
  }
  return line;
}

}  // namespace

std::vector<Rule> parse_rule(std::string_view line) { return read_rule(trim(line)); }

void for_each_rule(std::string_view text, const std::string& source,
                   const std::function<bool(Rule)>& visit) {
  std::map<std::string, int, std::less<>> lines;  // line of each rule, by name
  std::string pending;
  int begin = 0;
  // Returns false if no more rules are wanted.
  const auto finish = [&] {
    if (pending.empty()) return true;
    const auto where = fmt::format("{}:{}", source, begin);
    std::vector<Rule> found;
    try {
      for (const auto& line : expand_family(pending)) {
        for (auto& rule : parse_rule(line)) {
          const auto [known, fresh] = lines.emplace(rule.name, begin);
          if (!fresh) {
            throw UserError(
                "rule", rule.name,
                fmt::format("the rule in line {} already has this name", known->second));
          }
          found.push_back(std::move(rule));
        }
      }
    } catch (const UserError& e) {
      throw UserError("rule", where, e.where.empty() ? e.message : e.where + ": " + e.message,
                      e.hint);
    }
    pending.clear();
    return std::ranges::all_of(found, [&](Rule& rule) { return visit(std::move(rule)); });
  };
  int number = 0;
  while (!text.empty()) {
    ++number;
    const auto line = strip_comment(take_line(text));
    if (trim(line).empty()) continue;
    const bool continues = line[0] == ' ' || line[0] == '\t';
    if (!continues) {
      if (!finish()) return;
      begin = number;
    }
    if (!pending.empty()) pending += ' ';
    pending += trim(line);
  }
  (void)finish();
}

std::vector<Rule> parse_rules(std::string_view text, const std::string& source) {
  std::vector<Rule> out;
  for_each_rule(text, source, [&](Rule rule) {
    out.push_back(std::move(rule));
    return true;
  });
  return out;
}

}  // namespace tandem::rewrite
