#include "rewrite/collection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error_test_support.h"
#include "rewrite/rule_text.h"

namespace tandem::rewrite {
namespace {

Rule rule(const std::string& line) { return parse_rule(line)[0]; }

TEST(Proofs, MatchARuleByHash) {
  const auto fuse = rule("fuse: (relu (linear ?x ?w)) => (linear ?x ?w act=relu)");
  const auto add = rule("add: (add ?x ?y) => (add ?y ?x)");
  const auto other = rule("other: (relu ?x) => (tanh ?x)");
  const ProofLine lines[] = {{"fuse", compute_hash(fuse), {Status::kProved, "sums", ""}},
                             {"add", compute_hash(add) + 1, {Status::kProved, "sums", ""}}};
  const auto rules = attach_proofs({fuse, add, other}, "x.rules", lines);
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_TRUE(rules[0].is_proved());
  EXPECT_EQ(rules[0].origin, "x.rules");
  EXPECT_FALSE(rules[1].is_proved()) << "the rule was changed since";
  EXPECT_FALSE(rules[2].is_proved());
}

TEST(Proofs, AddTheirConditionsToTheRule) {
  const Proof proof{Status::kProvedIf, "z3", "dim(?x, 0) == 2 or rank(?x) == 1"};
  const auto print_guarded = [&](const std::string& line) {
    return to_text(ProvedRule{rule(line), proof, ""}.to_guarded_rule());
  };
  EXPECT_EQ(print_guarded("a: (relu ?x) => (relu ?x)"),
            "a: (relu ?x) => (relu ?x) if (dim(?x, 0) == 2 or rank(?x) == 1)");
  EXPECT_EQ(print_guarded("a: (relu ?x) => (relu ?x) if dim(?x, 0) == 3"),
            "a: (relu ?x) => (relu ?x) if dim(?x, 0) == 3 and (dim(?x, 0) == 2 or rank(?x) == 1)");
}

TEST(Proofs, RoundTripText) {
  const std::string line = "a 00c1a2b3c4d5e6f7 proved_if z3 dim(?x, 0) == 2";
  const auto lines = parse_proofs("# comment\n\n" + line + "\nb 1 refuted none\n", "proofs");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(to_text(lines[0]), line);
  EXPECT_EQ(lines[1].proof.status, Status::kRefuted);
}

TEST(Proofs, ReportErrors) {
  const auto message = [](const std::string& text) {
    return get_error([&] { parse_proofs(text, "proofs"); });
  };
  EXPECT_EQ(message("a 12 proved"), "proofs:1: expected 'NAME HASH STATUS PROVER [CONDITION]'");
  EXPECT_EQ(message("\na xyz proved z3"), "proofs:2: 'xyz' is not a hash");
  EXPECT_EQ(message("a 12345678901234567 proved z3"),
            "proofs:1: '12345678901234567' is not a hash");
  EXPECT_EQ(
      message("a 12 sure z3"),
      "proofs:1: 'sure' is not a status (expected one of: proved, proved_if, refuted, unproved)");
  EXPECT_EQ(message("a 12 proved_if z3"),
            "proofs:1: a condition is required after proved_if, and not allowed otherwise");
}

// If it fails after a change of rules/*.rules, run tandem rules verify rules/*.rules --proofs
// rules/proofs
TEST(ShippedProofs, CoverEveryRule) {
  EXPECT_GT(shipped_rules().size(), 50U);
  for (const auto& shipped : shipped_rules()) {
    EXPECT_TRUE(shipped.is_proved()) << shipped.rule.name << " of " << shipped.origin;
  }
  EXPECT_EQ(list_usable_rules().size(), shipped_rules().size());
}

TEST(ShippedProofs, CoverEveryGeneratedRule) {
  EXPECT_GT(generated_rules().size(), 1000U);
  for (const auto& rule : generated_rules()) {
    EXPECT_EQ(rule.proof.status, Status::kProved) << rule.rule.name;
  }
  EXPECT_EQ(list_all_rules().size(), list_usable_rules().size() + generated_rules().size());
}

// Names are unique so that a name finds one rule among all.
TEST(ShippedProofs, HaveUniqueNames) {
  std::set<std::string> names;
  for (const auto& rule : list_all_rules())
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
}

TEST(ShippedProofs, AreFoundByName) {
  EXPECT_EQ(find_shipped_rule("add-commutes").rule.name, "add-commutes");
  EXPECT_EQ(get_error([] { find_shipped_rule("add-comutes"); }),
            "add-comutes: unknown rule (did you mean 'add-commutes'?)");
}

}  // namespace
}  // namespace tandem::rewrite
