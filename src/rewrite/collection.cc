#include "rewrite/collection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/check.h"
#include "base/error.h"
#include "base/lines.h"
#include "base/text.h"
#include "rewrite/embedded.h"
#include "rewrite/rule_text.h"

namespace tandem::rewrite {

namespace {

constexpr std::array<std::string_view, 4> kNames = {"proved", "proved_if", "refuted", "unproved"};

std::vector<ProvedRule> load(const std::string& directory, std::span<const EmbeddedFile> rules,
                             std::span<const EmbeddedFile> proof_files) {
  std::vector<ProofLine> proofs;
  for (const auto& file : proof_files) proofs = parse_proofs(file.text, directory + "proofs");
  std::vector<ProvedRule> out;
  std::map<std::string, std::string> places;
  for (const auto& file : rules) {
    const auto origin = fmt::format("{}{}.rules", directory, file.name);
    for (auto& rule : attach_proofs(parse_rules(file.text, origin), origin, proofs)) {
      const auto [known, fresh] = places.emplace(rule.rule.name, origin);
      if (!fresh) {
        throw UserError(
            "rule", origin,
            fmt::format("{}: a rule of {} already has this name", rule.rule.name, known->second));
      }
      out.push_back(std::move(rule));
    }
  }
  return out;
}

void add_proved(const std::vector<ProvedRule>& rules, std::vector<Rule>& out) {
  for (const auto& rule : rules) {
    if (rule.is_proved()) out.push_back(rule.to_guarded_rule());
  }
}

ProofLine parse_proof(std::string_view line, const std::string& where) {
  const auto parts = split_words(line);
  constexpr std::size_t kParts = 4;
  if (parts.size() < kParts) {
    throw UserError("rule", where, "expected 'NAME HASH STATUS PROVER [CONDITION]'");
  }
  ProofLine out{.name = std::string(parts[0]), .hash = 0, .proof = {}};
  const auto hash = parts[1];
  const auto read = std::from_chars(hash.data(), hash.data() + hash.size(), out.hash, 16);
  if (read.ec != std::errc() || read.ptr != hash.data() + hash.size()) {
    throw UserError("rule", where, fmt::format("'{}' is not a hash", hash));
  }
  const auto* status = std::ranges::find(kNames, parts[2]);
  if (status == kNames.end()) {
    throw UserError("rule", where, fmt::format("'{}' is not a status", parts[2]),
                    "expected one of: " + fmt::format("{}", fmt::join(kNames, ", ")));
  }
  out.proof.status = static_cast<Status>(status - kNames.begin());
  out.proof.prover = parts[3];
  if (parts.size() > kParts) {
    const auto begin = parts[kParts].data() - line.data();
    out.proof.condition = trim(line.substr(static_cast<std::size_t>(begin)));
  }
  if ((out.proof.status == Status::kProvedIf) == out.proof.condition.empty()) {
    throw UserError("rule", where,
                    "a condition is required after proved_if, and not allowed otherwise");
  }
  return out;
}

}  // namespace

std::string_view name(Status status) { return kNames[static_cast<std::size_t>(status)]; }

Rule ProvedRule::to_guarded_rule() const {
  if (proof.status != Status::kProvedIf) return rule;
  const auto* link = rule.conditions.empty() ? " if " : " and ";
  return parse_rule(fmt::format("{}{}({})", to_text(rule), link, proof.condition))[0];
}

const std::vector<ProvedRule>& shipped_rules() {
  static const auto rules = load("rules/", embedded_rules(), embedded_proofs());
  return rules;
}

std::vector<Rule> list_usable_rules() {
  std::vector<Rule> out;
  add_proved(shipped_rules(), out);
  return out;
}

const std::vector<ProvedRule>& generated_rules() {
  static const auto rules =
      load("rules/generated/", embedded_generated_rules(), embedded_generated_proofs());
  return rules;
}

std::vector<Rule> list_all_rules() {
  auto out = list_usable_rules();
  add_proved(generated_rules(), out);
  return out;
}

const ProvedRule& find_shipped_rule(std::string_view wanted) {
  std::vector<std::string> names;
  for (const auto* rules : {&shipped_rules(), &generated_rules()}) {
    const auto found = std::ranges::find(
        *rules, wanted, [](const ProvedRule& r) -> const auto& { return r.rule.name; });
    if (found != rules->end()) return *found;
    for (const auto& rule : *rules) names.push_back(rule.rule.name);
  }
  const auto near = find_nearest(wanted, names);
  throw UserError("rule", std::string(wanted), "unknown rule",
                  near.empty() ? "`tandem rules` lists the rules" : "did you mean '" + near + "'?");
}

std::vector<ProofLine> parse_proofs(std::string_view text, const std::string& source) {
  std::vector<ProofLine> out;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const auto line = trim(take_line(text));
    if (line.empty() || line[0] == '#') continue;
    out.push_back(parse_proof(line, fmt::format("{}:{}", source, number)));
  }
  return out;
}

std::string to_text(const ProofLine& line) {
  auto out = fmt::format("{} {:016x} {} {}", line.name, line.hash, name(line.proof.status),
                         line.proof.prover);
  if (!line.proof.condition.empty()) out += " " + line.proof.condition;
  return out;
}

std::vector<ProvedRule> attach_proofs(std::vector<Rule> rules, const std::string& origin,
                                      std::span<const ProofLine> proofs) {
  std::map<std::string_view, const ProofLine*> by_name;
  for (const auto& line : proofs) by_name.emplace(line.name, &line);
  std::vector<ProvedRule> out;
  out.reserve(rules.size());
  for (auto& rule : rules) {
    Proof proof;
    const auto known = by_name.find(rule.name);
    if (known != by_name.end() && known->second->hash == compute_hash(rule)) {
      proof = known->second->proof;
    }
    out.push_back({std::move(rule), std::move(proof), origin});
  }
  return out;
}

}  // namespace tandem::rewrite
