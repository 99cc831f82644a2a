// Every shipped rule must be proved without further conditions. Every one-token mutant of the rules
// written by hand, and of some generated ones, must be refuted with concrete tensors or proved.
#include <gtest/gtest.h>

#include "base/fewer_test_support.h"
#include "rewrite/collection.h"
#include "rewrite/embedded.h"
#include "rewrite/rule_text.h"
#include "verify/mutants.h"
#include "verify/verdict.h"

namespace tandem::verify {
namespace {

std::string describe(const RuleVerdict& v) {
  return fmt::format("{}\n  condition: {}\n  counterexample: {}\n  reason: {}",
                     name(v.proof.status), v.proof.condition, v.counterexample, v.reason);
}

std::vector<rewrite::Rule> written_rules() {
  std::vector<rewrite::Rule> out;
  for (const auto& file : rewrite::embedded_rules()) {
    for (auto& rule : rewrite::parse_rules(file.text, std::string(file.name))) {
      out.push_back(std::move(rule));
    }
  }
  return out;
}

TEST(ShippedRules, AreProved) {
  std::size_t count = 0;
  for (const auto& rule : written_rules()) {
    if (count++ % kFewer != 0) continue;
    const auto verdict = verify(rule);
    EXPECT_EQ(verdict.proof.status, Status::kProved) << rule.name << ": " << describe(verdict);
    EXPECT_NE(verdict.proof.prover, kProvedByLayouts) << rule.name << " applies nowhere";
  }
  EXPECT_GT(count, 100U);
}

// Judges a sample of the generated rules; the nightly test judges all of them.
void judge_generated(std::size_t every) {
  const auto& rules = rewrite::generated_rules();
  EXPECT_GT(rules.size(), 1000U);
  for (std::size_t i = 0; i < rules.size(); i += every) {
    const auto verdict = verify(rules[i].rule);
    EXPECT_EQ(verdict.proof.status, Status::kProved)
        << rules[i].rule.name << ": " << describe(verdict);
    EXPECT_NE(verdict.proof.prover, kProvedByLayouts) << rules[i].rule.name;
  }
}

TEST(GeneratedRules, AreProved) { judge_generated(37 * kFewer); }
TEST(GeneratedRules, AreAllProvedNightly) { judge_generated(1); }

void judge_mutants(const std::vector<rewrite::Rule>& rules, std::size_t every) {
  std::size_t count = 0;
  std::size_t judged = 0;
  std::size_t refuted = 0;
  for (std::size_t r = 0; r < rules.size(); r += kFewer) {
    for (const auto& mutant : make_mutants(rules[r])) {
      if (count++ % every != 0) continue;
      ++judged;
      const auto verdict = verify(mutant);
      EXPECT_NE(verdict.proof.status, Status::kUnproved) << rewrite::to_text(mutant) << "\n"
                                                         << describe(verdict);
      if (verdict.proof.status != Status::kRefuted) continue;
      ++refuted;
      EXPECT_NE(verdict.counterexample.find(": "), std::string::npos) << verdict.counterexample;
    }
  }
  EXPECT_GT(refuted, judged / 4);
}

std::vector<rewrite::Rule> list_generated() {
  std::vector<rewrite::Rule> out;
  for (const auto& shipped : rewrite::generated_rules()) out.push_back(shipped.rule);
  return out;
}

// The tests judge samples; the nightly ones judge all mutants.
TEST(ShippedRules, HaveJudgedMutants) { judge_mutants(written_rules(), 41); }
TEST(ShippedRules, HaveJudgedMutantsNightly) { judge_mutants(written_rules(), 1); }
TEST(GeneratedRules, HaveJudgedMutants) { judge_mutants(list_generated(), 401); }
TEST(GeneratedRules, HaveJudgedMutantsNightly) { judge_mutants(list_generated(), 1); }

}  // namespace
}  // namespace tandem::verify
