#include "verify/instances.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/graph.h"
#include "rewrite/rule_text.h"
#include "verify/rule_typer.h"

namespace tandem::verify {
namespace {

Rule parse_line(const std::string& line) { return rewrite::parse_rule(line)[0]; }

// Returns the sizes of two matrices that a matmul takes, by brute force.
std::set<std::string> list_matmul_operands(std::int64_t largest) {
  std::set<std::string> out;
  for (std::int64_t m = 1; m <= largest; ++m) {
    for (std::int64_t k = 1; k <= largest; ++k) {
      for (std::int64_t n = 1; n <= largest; ++n) {
        out.insert(fmt::format("?x [{}, {}], ?y [{}, {}]", m, k, k, n));
      }
    }
  }
  return out;
}

TEST(Instances, CoverAllFittingSizesOfAMatmul) {
  const auto rule = parse_line("t: (matmul ?x ?y) => (matmul ?x ?y)");
  const auto patterns = find_patterns(rule);
  std::set<std::string> matrices;
  for (const auto& pattern : patterns.all) {
    if (pattern.base.tensors[0].shape.rank() != 2 || pattern.base.tensors[1].shape.rank() != 2) {
      continue;
    }
    const auto small = list_small_instances(rule, pattern, 3, 1000);
    EXPECT_FALSE(small.cut);
    for (const auto& instance : small.all) matrices.insert(to_text(rule, instance));
  }
  EXPECT_EQ(matrices, list_matmul_operands(3));
}

// Each instance occurs, and the search finds far more than one kind.
TEST(Instances, AllOccur) {
  for (const std::string line : {
           "a: (relu (add ?x ?y)) => (relu (add ?y ?x))",
           "b: (concat ?x ?y axis=?a) => (concat ?x ?y axis=?a)",
           "c: (split (concat ?x ?y axis=?a) axis=?a parts=2) => ?x if dim(?x, ?a) == dim(?y, ?a)",
           "d: (matmul (concat ?x ?y axis=1) ?w) => (matmul (concat ?x ?y axis=1) ?w)",
           "e: (conv2d ?x ?w padding=[1, 1] groups=2) => (conv2d ?x ?w padding=[1, 1] groups=2)",
           "f: (add ?x (conv2d ?x ?w padding=[1, 1])) => (add (conv2d ?x ?w padding=[1, 1]) ?x)",
           "g: (avg_pool2d ?x kernel=?k) => (avg_pool2d ?x kernel=?k)",
           "h: (transpose (transpose ?x perm=?p) perm=?p) => ?x",
           "i: (reshape ?x shape=?s) => (reshape ?x shape=?s)",
           "j: (embedding_bag ?i ?w) => (embedding_bag ?i ?w)",
           "k: (reduce (matmul (partition ?x dim=1 degree=?d) (partition ?w dim=0 degree=?d)) "
           "degree=?d) => (matmul ?x ?w)",
           "l: (reduce ?x degree=2) => (reduce ?x degree=2)",
           "m: (slice ?x axis=?a begin=?b size=?n) => (slice ?x axis=?a begin=?b size=?n)",
           "n: (matmul ?x (constant shape=[dim(?x, 1), dim(?x, 1)] kind=\"eye\" value=1)) => ?x",
           "o: (linear ?x ?w act=?f) => (linear ?x ?w act=?f)",
       }) {
    const auto rule = parse_line(line);
    const auto patterns = find_patterns(rule);
    EXPECT_FALSE(patterns.all.empty()) << line;
    std::size_t generic = 0;
    for (const auto& pattern : patterns.all) {
      EXPECT_TRUE(occurs(rule, pattern.base)) << line << "\n" << to_text(rule, pattern.base);
      for (const auto& instance : list_small_instances(rule, pattern, 3, 50).all) {
        EXPECT_TRUE(occurs(rule, instance)) << line;
      }
      if (const auto large = find_generic_instance(rule, pattern, 1)) ++generic;
    }
    EXPECT_GT(generic, 0U) << line;
  }
}

TEST(Instances, ReportWhetherTheTargetFits) {
  const auto rule = parse_line(
      "t: (transpose (add ?x ?y) perm=[1, 0]) => (add (transpose ?x perm=[1, 0]) "
      "(transpose ?y perm=[1, 0]))");
  std::set<Fit> fits;
  for (const auto& pattern : find_patterns(rule).all) fits.insert(check_fit(rule, pattern.base));
  EXPECT_EQ(fits, (std::set{Fit::kBoth, Fit::kSourceOnly}));
}

}  // namespace
}  // namespace tandem::verify
