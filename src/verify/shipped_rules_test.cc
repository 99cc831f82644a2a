// Every rule that is shipped is proved as it stands, and every one-token mutant of some of them is
// refuted with concrete tensors or proved.
#include <gtest/gtest.h>

#include "rewrite/collection.h"
#include "rewrite/embedded.h"
#include "rewrite/rule_text.h"
#include "verify/mutants.h"
#include "verify/verdict.h"

namespace tandem::verify {
namespace {

std::string described(const Verdict& v) {
  return fmt::format("{}\n  condition: {}\n  counterexample: {}\n  reason: {}",
                     name(v.proof.status), v.proof.condition, v.counterexample, v.reason);
}

TEST(ShippedRules, AreProved) {
  std::size_t count = 0;
  for (const auto& file : rewrite::embedded_rules()) {
    for (const auto& rule : rewrite::parse_rules(file.text, std::string(file.name))) {
      const auto verdict = verify(rule);
      EXPECT_EQ(verdict.proof.status, Status::kProved) << rule.name << ": " << described(verdict);
      ++count;
    }
  }
  EXPECT_GT(count, 100U);
}

// A sample; all of them at night.
void judge_generated(std::size_t every) {
  const auto& rules = rewrite::generated_rules();
  EXPECT_GT(rules.size(), 1000U);
  for (std::size_t i = 0; i < rules.size(); i += every) {
    const auto verdict = verify(rules[i].rule);
    EXPECT_EQ(verdict.proof.status, Status::kProved)
        << rules[i].rule.name << ": " << described(verdict);
  }
}

TEST(GeneratedRules, AreProved) { judge_generated(37); }
TEST(GeneratedRules, AreAllProvedNightly) { judge_generated(1); }

// A sample; all of them at night.
void judge_mutants(std::size_t every) {
  std::size_t count = 0;
  std::size_t refuted = 0;
  for (const auto& file : rewrite::embedded_rules()) {
    for (const auto& rule : rewrite::parse_rules(file.text, std::string(file.name))) {
      for (const auto& mutant : mutants(rule)) {
        if (count++ % every != 0) continue;
        const auto verdict = verify(mutant);
        EXPECT_NE(verdict.proof.status, Status::kUnproved) << rewrite::to_text(mutant) << "\n"
                                                           << described(verdict);
        if (verdict.proof.status != Status::kRefuted) continue;
        ++refuted;
        EXPECT_NE(verdict.counterexample.find(": "), std::string::npos) << verdict.counterexample;
      }
    }
  }
  EXPECT_GT(refuted, count / every / 4);
}

TEST(ShippedRules, MutantsAreRefutedOrProved) { judge_mutants(41); }
TEST(ShippedRules, AllMutantsAreRefutedOrProvedNightly) { judge_mutants(1); }

}  // namespace
}  // namespace tandem::verify
