#include "rewrite/derivation_step.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace tandem::rewrite {

namespace {

[[noreturn]] void fail_step(std::string_view text) {
  throw UserError("derivation", "", fmt::format("cannot parse the step '{}'", text),
                  "expected RULE at HASH[,HASH] [choose N[,N]] : HASH -> HASH");
}

Hash parse_hash(std::string_view digits, std::string_view step) {
  Hash out = 0;
  const auto* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, out, 16);
  if (result.ec != std::errc() || result.ptr != end) fail_step(step);
  return out;
}

}  // namespace

std::string to_text(const DerivationStep& step) {
  auto out = fmt::format("{} at {:016x}", step.rule, fmt::join(step.place, ","));
  if (!step.choices.empty()) out += fmt::format(" choose {}", fmt::join(step.choices, ","));
  return out + fmt::format(" : {:016x} -> {:016x}", step.before, step.after);
}

DerivationStep parse_step(std::string_view text) {
  const auto w = split_words(text);
  const bool chooses = w.size() == 9 && w[3] == "choose";
  const std::size_t end = chooses ? 5 : 3;
  if (w.size() != end + 4 || w[1] != "at" || w[end] != ":" || w[end + 2] != "->") fail_step(text);
  DerivationStep out{
      std::string(w[0]), {}, {}, parse_hash(w[end + 1], text), parse_hash(w[end + 3], text)};
  for (auto place : split(w[2], ',')) out.place.push_back(parse_hash(place, text));
  if (!chooses) return out;
  for (auto choice : split(w[4], ',')) {
    const auto number = parse_int(choice);
    if (!number) fail_step(text);
    out.choices.push_back(number.value_or(0));
  }
  return out;
}

std::string to_text(const Derivation& derivation) {
  std::string out;
  for (const auto& step : derivation) out += to_text(step) + "\n";
  return out;
}

Derivation parse_derivation(std::string_view text) {
  Derivation out;
  for (auto line : split(text, '\n')) {
    if (!line.empty()) out.push_back(parse_step(line));
  }
  return out;
}

}  // namespace tandem::rewrite
