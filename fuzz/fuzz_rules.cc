// Fuzzing of the parsers of rules: text, collections in JSON, and lines of proofs.
#include "rewrite/collection.h"
#include "rewrite/collection_json.h"
#include "rewrite/rule_text.h"
#include "target.h"

namespace tandem {
namespace {

// What is printed is read again as the same rule.
void check_round_trip(const rewrite::Rule& rule) {
  const auto text = rewrite::to_canonical_text(rule);
  if (text.empty()) return;
  if (rewrite::to_canonical_text(rewrite::parse_rule(text)[0]) != text) std::abort();
}

}  // namespace
}  // namespace tandem

void tandem::fuzz::parse(std::string_view input) {
  if (input.starts_with('#')) {
    for (const auto& line : rewrite::parse_proofs(input, "fuzz")) (void)rewrite::to_text(line);
    return;
  }
  if (!rewrite::is_collection_json(input)) {
    for (const auto& rule : rewrite::parse_rules(input, "fuzz")) check_round_trip(rule);
    return;
  }
  const auto rules = rewrite::import_collection(input, "fuzz").rules;
  for (const auto& rule : rules) check_round_trip(rule);
  const auto exported = rewrite::export_collection(rules);
  if (rewrite::import_collection(exported.text, "again").rules.size() != exported.rules) {
    std::abort();
  }
}
