#include "generate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "generate/side_graph_test_support.h"
#include "graph/sequential.h"
#include "rewrite/rule_text.h"

namespace tandem::generate {
namespace {

std::set<std::string> texts(const Generated& generated) {
  std::set<std::string> out;
  for (const auto& rule : generated.rules) {
    const auto text = rewrite::to_text(rule);
    out.insert(text.substr(text.find(": ") + 2));
  }
  return out;
}

// Returns what a side computes, by the sequential interpreter.
std::vector<Dense<Field>> run(const rewrite::Side& side, const Assignment& assignment) {
  const auto graph = make_graph(side, assignment);
  const auto values = graph::run_forward<Field>(graph, graph::make_feed_values<Field>(graph, 3));
  std::vector<Dense<Field>> out;
  for (auto o : graph.outputs()) out.push_back(values[o.index()]);
  return out;
}

// Checks the rules with another oracle than the kernels that found them, with other numbers, and
// with other sizes if those are legal.
void expect_rules_hold(const Generated& generated) {
  std::size_t larger = 0;
  for (std::size_t r = 0; r < generated.found.size(); ++r) {
    const auto& rule = generated.rules[r];
    auto assignment = generated.found[r];
    EXPECT_EQ(run(rule.source, assignment), run(rule.target, assignment)) << to_text(rule);
    for (auto& type : assignment.tensors) {
      Shape sizes = type.shape.sizes;
      for (auto& s : sizes) s *= s > 1 ? 3 : 1;
      type.shape = ParallelShape(sizes);
    }
    if (!is_legal(rule, assignment)) continue;
    ++larger;
    EXPECT_EQ(run(rule.source, assignment), run(rule.target, assignment)) << to_text(rule);
  }
  EXPECT_GT(larger, generated.found.size() / 3);
}

void expect_classics(const Generated& generated) {
  const auto found = texts(generated);
  for (const std::string rule : {
           "(add (conv2d ?x ?y stride=?stride padding=?padding dilation=?dilation) (conv2d ?x ?z "
           "stride=?stride padding=?padding dilation=?dilation)) => (conv2d ?x (add ?y ?z) "
           "stride=?stride padding=?padding dilation=?dilation)",
           "(matmul (matmul ?x ?y) ?z) => (matmul ?x (matmul ?y ?z))",
           "(matmul ?x (matmul ?y ?z)) => (matmul (matmul ?x ?y) ?z)",
           "(add (matmul ?x ?y) (matmul ?x ?z)) => (matmul ?x (add ?y ?z))",
           "(matmul (add ?x ?y) ?z) => (add (matmul ?x ?z) (matmul ?y ?z))",
           "(relu (concat ?x ?y axis=?axis)) => (concat (relu ?x) (relu ?y) axis=?axis)",
           "(transpose (matmul ?x ?y) perm=[1, 0]) => (matmul (transpose ?y perm=[1, 0]) "
           "(transpose ?x perm=[1, 0]))",
           "(split (concat ?x ?y axis=?axis) axis=?axis parts=?parts) => ?x",
           "(concat (split ?x axis=?axis parts=2) (split ?x axis=?axis parts=2 part=1) axis=?axis) "
           "=> ?x",
           "(matmul ?x (constant shape=[?n, ?n] kind=\"eye\" value=1)) => ?x",
           "(relu (conv2d ?x ?y stride=?stride padding=?padding dilation=?dilation)) => (conv2d ?x "
           "?y stride=?stride padding=?padding dilation=?dilation act=relu)",
           "(add ?x ?y) => (add ?y ?x)",
       }) {
    EXPECT_TRUE(found.contains(rule)) << rule;
  }
}

TEST(Generate, MergesMatmulsOfOneTensor) {
  // Two matmuls become one: the equation has three operators.
  const auto set = parse_operator_set(R"(
tensors [4, 4] 3
(matmul ?x ?y) if rank(?x) == 2 and rank(?y) == 2
(concat ?x ?y axis=1) if rank(?x) == 2
(split ?x axis=1 parts=2), (split ?x axis=1 parts=2 part=1)
)");
  const auto generated = generate(set, {.max_ops = 3});
  const auto found = texts(generated);
  EXPECT_TRUE(found.contains(
      "(matmul ?x ?y), (matmul ?x ?z) => (split (matmul ?x (concat ?y ?z axis=1)) axis=1 parts=2), "
      "(split (matmul ?x (concat ?y ?z axis=1)) axis=1 parts=2 part=1)"));
  EXPECT_EQ(generated.left.front().first, "equalities");
}

void expect_equal(const Generated& again, const Generated& once) {
  EXPECT_EQ(again.graphs, once.graphs);
  EXPECT_EQ(again.left, once.left);
  EXPECT_EQ(again.rules, once.rules);
}

// Checks that the rules as text can be read.
void expect_rules_are_text(const Generated& generated) {
  std::string text;
  for (const auto& rule : generated.rules) text += rewrite::to_text(rule) + "\n";
  const auto read = rewrite::parse_rules(text);
  ASSERT_EQ(read.size(), generated.rules.size());
  for (std::size_t r = 0; r < read.size(); ++r) {
    EXPECT_EQ(rewrite::to_text(read[r]), rewrite::to_text(generated.rules[r]));
  }
}

// This is one test because the set takes long to generate.
TEST(Generate, FindsRulesForTasoOperators) {
  const auto generated = generate(operator_set("taso"), {.max_ops = 2});
  expect_rules_hold(generated);
  expect_classics(generated);
  expect_rules_are_text(generated);
  expect_equal(generate(operator_set("taso"), {.max_ops = 2, .threads = 1}), generated);
}

}  // namespace
}  // namespace tandem::generate
