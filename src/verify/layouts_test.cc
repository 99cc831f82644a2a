#include "verify/layouts.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"
#include "verify/verdict.h"

namespace tandem::verify {
namespace {

// Returns the pattern up to which the source of a rule is legal nowhere, or "" if it may be legal.
std::string illegal(const std::string& source) {
  const auto rule = rewrite::parse_rule("r: " + source + " => " + source)[0];
  const auto node = find_illegal_node(rule);
  if (!node) return "";
  auto side = rule.source;
  side.outputs = {*node};
  return rewrite::to_text(rule, side);
}

TEST(Layouts, IllegalSources) {
  for (const auto* source : {
           // A relu takes no partial sums.
           "(reduce (relu (replicate ?x degree=2)) degree=2)",
           "(relu (join ?x (linear ?y ?w)))",
           "(linear (join ?v ?w) ?x act=relu)",
           // An operand of concat must be whole along the joined dimension.
           "(concat ?x (add (split (combine ?x degree=2) parts=2) (split (combine ?x degree=2) "
           "parts=2 part=1)))",
           // Operands of a join must have the same partial sums.
           "(join ?x (join ?y (add ?x ?y)))",
           "(linear (join ?v ?w) ?v)",
           // One weight serves rows of ?x that are partitioned by ?d, by 6, and no further.
           "(linear (partition ?x dim=0 degree=?d) ?w), (linear (partition ?x dim=0 degree=6) "
           "(replicate ?w "
           "degree=?d)), (linear ?x (replicate ?w degree=?d))",
           "(softmax (partition ?x dim=?i degree=2) axis=?i)",
       }) {
    EXPECT_NE(illegal(source), "") << source;
  }
  EXPECT_EQ(illegal("(tanh (reduce (relu (replicate ?x degree=2)) degree=2))"),
            "(reduce (relu (replicate ?x degree=2)) degree=2)");
}

// A source that has an instance is legal in some layout.
TEST(Layouts, LegalSources) {
  for (const auto* source : {
           "(reduce (join ?x ?y) degree=2)",
           "(linear (join ?x ?y) ?w)",
           "(relu (partition ?x dim=0 degree=2))",
           "(combine (matmul (replicate ?x degree=?d) (partition ?w dim=1 degree=?d)) dim=1 "
           "degree=?d)",
           "(reduce (matmul (partition ?x dim=1 degree=6) (partition ?w dim=0 degree=6)) degree=6)",
           "(softmax (partition ?x dim=?i degree=2) axis=-1)",
           "(unreplicate (replicate ?x degree=4) degree=2)",
           "(mul ?x (join ?y ?z))",
       }) {
    EXPECT_EQ(illegal(source), "") << source;
  }
}

TEST(Verdict, AcceptsARuleThatNeverApplies) {
  const auto verdict = verify(
      rewrite::parse_rule("r: (reduce (relu (replicate ?x degree=2)) degree=2) => (add ?x ?x)")[0]);
  EXPECT_EQ(verdict.proof.status, Status::kProved);
  EXPECT_EQ(verdict.proof.prover, kProvedByLayouts);
  EXPECT_EQ(verdict.reason,
            "applies nowhere: no layout fits (reduce (relu (replicate ?x degree=2)) degree=2)");
}

}  // namespace
}  // namespace tandem::verify
