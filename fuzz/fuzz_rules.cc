// Fuzzing of the parsers of rules: text, collections in JSON, and lines of proofs.
#include "import/collection_json.h"
#include "rewrite/collection.h"
#include "rewrite/rule_text.h"
#include "target.h"

namespace tandem {
namespace {

// Checks that a printed rule is read again as the same rule.
void check_round_trip(const rewrite::Rule& rule) {
  const auto text = import::to_canonical_text(rule);
  if (text.empty()) return;
  if (import::to_canonical_text(rewrite::parse_rule(text)[0]) != text) std::abort();
}

}  // namespace
}  // namespace tandem

void tandem::fuzz::parse(std::string_view input) {
  if (input.starts_with('#')) {
    for (const auto& line : rewrite::parse_proofs(input, "fuzz")) (void)rewrite::to_text(line);
    return;
  }
  if (!import::is_collection_json(input)) {
    for (const auto& rule : rewrite::parse_rules(input, "fuzz")) check_round_trip(rule);
    return;
  }
  const auto rules = import::import_collection(input, "fuzz").rules;
  for (const auto& rule : rules) check_round_trip(rule);
  const auto exported = import::export_collection(rules);
  if (import::import_collection(exported.text, "again").rules.size() != exported.rules) {
    std::abort();
  }
}
