#include "plan/rule_step.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "rewrite/collection.h"

namespace tandem::plan {

namespace {

[[noreturn]] void fail(std::string_view text) {
  throw UserError("derivation", "", fmt::format("cannot parse the step '{}'", text),
                  "expected RULE [at N] [choose N[,N]]");
}

}  // namespace

std::string to_text(const RuleStep& step) {
  auto out = step.rule;
  if (step.at > 0) out += fmt::format(" at {}", step.at);
  if (!step.choices.empty()) out += fmt::format(" choose {}", fmt::join(step.choices, ","));
  return out;
}

std::string to_text(const RuleSteps& steps) {
  std::string out;
  for (const auto& step : steps) out += to_text(step) + "\n";
  return out;
}

RuleStep parse_rule_step(std::string_view text) {
  const auto w = split_words(text);
  if (w.empty()) fail(text);
  RuleStep out{std::string(w[0])};
  std::size_t next = 1;
  if (next + 1 < w.size() && w[next] == "at") {
    constexpr std::int64_t kMost = 1000;
    const auto at = parse_int(w[next + 1]);
    if (!at || *at < 0 || *at > kMost) fail(text);
    out.at = static_cast<std::size_t>(*at);
    next += 2;
  }
  if (next + 1 < w.size() && w[next] == "choose") {
    for (auto choice : split(w[next + 1], ',')) {
      constexpr std::int64_t kLargest = std::int64_t{1} << 20U;
      const auto number = parse_int(choice);
      if (!number || *number < 0 || *number > kLargest) fail(text);
      out.choices.push_back(*number);
    }
    next += 2;
  }
  if (next != w.size()) fail(text);
  return out;
}

const rewrite::Rule* find_usable_rule(const std::string& name) {
  static const auto rules = rewrite::list_usable_rules();
  static const auto by_name = [] {
    std::unordered_map<std::string, const rewrite::Rule*> out;
    for (const auto& rule : rules) out.emplace(rule.name, &rule);
    return out;
  }();
  const auto at = by_name.find(name);
  return at == by_name.end() ? nullptr : at->second;
}

}  // namespace tandem::plan
