#include "verify/verdict.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"

namespace tandem::verify {
namespace {

Rule rule_of(const std::string& line) { return rewrite::parse_rule(line)[0]; }

TEST(Verdict, OfRulesWithKnownAnswers) {
  const std::vector<std::pair<std::string, Status>> cases = {
      {"a: (add ?x ?y) => (add ?y ?x)", Status::kProved},
      {"b: (matmul ?x (matmul ?y ?z)) => (matmul (matmul ?x ?y) ?z)", Status::kProved},
      {"c: (matmul ?x ?y) => (matmul ?y ?x)", Status::kRefuted},
      {"d: (transpose (add ?x ?y) perm=[1, 0]) => (add (transpose ?x perm=[1, 0]) (transpose ?y "
       "perm=[1, 0]))",
       Status::kProvedIf},
      {"e: (split (concat ?x ?y axis=?a) axis=?a parts=2) => ?x", Status::kProvedIf},
      {"f: (exp (add ?x ?y)) => (mul (exp ?x) (exp ?y))", Status::kUnproved},
      {"g: (relu (add ?x ?y)) => (add (relu ?x) (relu ?y))", Status::kRefuted},
      {"h: (relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i degree=?d) "
       "choose ?i, ?d if divides(?d, dim(?x, ?i) / degree(?x, ?i))",
       Status::kProved},
      {"i: (add ?x ?y) => (reduce (join ?x ?y) degree=2) if same_shape(?x, ?y)", Status::kProved},
      {"j: (avg_pool2d ?x kernel=[3, 3]) => (conv2d ?x (constant shape=[dim(?x, 1), 1, 3, 3] "
       "kind=\"fill\" value=0.1111111111111111) groups=dim(?x, 1))",
       Status::kProved},
  };
  for (const auto& [line, expected] : cases) {
    const auto verdict = verify(rule_of(line));
    EXPECT_EQ(name(verdict.proof.status), name(expected))
        << line << "\ncondition: " << verdict.proof.condition
        << "\ncounterexample: " << verdict.counterexample << "\nreason: " << verdict.reason;
    if (std::getenv("TANDEM_SHOW") != nullptr)
      fmt::print("{}\n   {} {} | {} | {} | {} patterns {} instances\n", line,
                 name(verdict.proof.status), verdict.proof.condition, verdict.counterexample,
                 verdict.reason, verdict.patterns, verdict.instances);
  }
}

}  // namespace
}  // namespace tandem::verify
