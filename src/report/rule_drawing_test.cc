#include "report/rule_drawing.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"

namespace tandem::report {
namespace {

std::string draw(const std::string& line, std::size_t width = 100) {
  return "\n" + draw_rule(rewrite::parse_rule(line)[0], width);
}

TEST(RuleDrawing, DrawsBothSides) {
  EXPECT_EQ(draw("a: (matmul ?x (add ?y ?z)) => (add (matmul ?x ?y) (matmul ?x ?z))"), R"(
matmul    =>  add
├─ ?x         ├─ matmul
└─ add        │  ├─ ?x
   ├─ ?y      │  └─ ?y
   └─ ?z      └─ matmul
                 ├─ ?x
                 └─ ?z
)");
}

TEST(RuleDrawing, DrawsSharedNodesOnce) {
  EXPECT_EQ(draw("a: (relu ?x), (tanh (relu ?x)) => (relu ?x), (tanh (relu ?x))"), R"(
relu [1]  =>  relu [1]
└─ ?x         └─ ?x
tanh          tanh
└─ [1]        └─ [1]
)");
}

TEST(RuleDrawing, ShowsAttributesAndStacksWideRules) {
  EXPECT_EQ(draw("a: (concat ?x ?y axis=1) => (scale (concat ?x ?y axis=1) factor=1)", 20), R"(
concat axis=1
├─ ?x
└─ ?y
=>
scale
└─ concat axis=1
   ├─ ?x
   └─ ?y
)");
}

}  // namespace
}  // namespace tandem::report
