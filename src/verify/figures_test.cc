// Derives the rules of Unity's figures, from the generator to the proof. Figure 4b merges two
// convolutions of one image, also depthwise ones. Figure 11a shards a relu, and 11b converts a sum
// to partial sums. A matmul of partial sums is also derived. examples/04-rules derives Figure 10.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "generate/generate.h"
#include "generate/parallel_rules.h"
#include "rewrite/rule_text.h"
#include "verify/verdict.h"

namespace tandem::verify {
namespace {

// Expects that the rule was found, and that it is proved, possibly under a condition.
void expect_proved(const std::vector<Rule>& found, const std::string& text) {
  const auto rule = std::ranges::find_if(found, [&](const Rule& r) {
    const auto written = rewrite::to_text(r);
    return written.substr(written.find(": ") + 2).starts_with(text);
  });
  ASSERT_NE(rule, found.end()) << text;
  const auto verdict = verify(*rule);
  EXPECT_TRUE(is_proved(verdict.proof.status)) << text << "\n" << verdict.counterexample;
}

TEST(Figures, AreProvedForConvolutions) {
  const std::string attributes =
      " stride=?stride padding=?padding dilation=?dilation groups=?groups)";
  for (const std::string_view groups : {"1", "2"}) {
    const auto set = generate::parse_operator_set(
        fmt::format("tensors [2, 2, 3, 3] 1\ntensors [2, {}, 3, 3] 2\n"
                    "(conv2d ?x ?y padding=[1, 1] groups={}) if rank(?x) == 4\n"
                    "(add ?x ?y) if same_shape(?x, ?y)\n",
                    groups == "1" ? 2 : 1, groups));
    const auto found = generate::generate(set, {.max_ops = 3}).rules;
    const auto of =
        groups == "1" ? attributes.substr(0, attributes.find(" groups")) + ")" : attributes;
    expect_proved(found, "(add (conv2d ?x ?y" + of + " (conv2d ?x ?z" + of +
                             ") => (conv2d ?x (add ?y ?z)" + of);
  }
}

TEST(Figures, AreProvedForParallelOperators) {
  std::vector<rewrite::Rule> found;
  for (const auto& made : generate::make_parallel_rules(generate::operator_set("all"))) {
    found.push_back(made.rule);
  }
  expect_proved(found,
                "(relu ?x) => (combine (relu (partition ?x dim=?i degree=?d)) dim=?i degree=?d)");
  expect_proved(found, "(add ?x ?y) => (reduce (join ?x ?y) degree=2)");
  expect_proved(found,
                "(matmul (reduce ?x degree=?d) ?y) => (reduce (matmul ?x (replicate ?y "
                "degree=?d)) degree=?d)");
}

}  // namespace
}  // namespace tandem::verify
