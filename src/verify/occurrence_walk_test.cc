#include "verify/occurrence_walk.h"

#include <gtest/gtest.h>

#include "rewrite/rule_text.h"
#include "verify/instances.h"
#include "verify/random_instances.h"

namespace tandem::verify {
namespace {

Rule rule(std::string_view text) { return rewrite::parse_rule("walked: " + std::string(text))[0]; }

Instance make_instance(std::initializer_list<Shape> shapes) {
  Instance out;
  for (const auto& shape : shapes) out.tensors.push_back({ParallelShape(shape), DType::kFp32});
  return out;
}

// Ranks and sizes of all four matmul operands depend on each other.
TEST(OccurrenceWalk, ReachesDistantSizes) {
  const auto walked =
      rule("(add (matmul ?x ?y) (matmul ?z ?w)) => (add (matmul ?z ?w) (matmul ?x ?y))");
  const auto near = make_instance({{2, 2}, {2, 2}, {2, 2}, {2, 2}});
  OccurrenceWalk walk(walked, {&near, 1}, 1);
  int occurred = 0;
  int uneven = 0;     // the contracted sizes differ from each other, the others do not
  int stretched = 0;  // a rank of 3 next to one of 2
  for (int i = 0; i < 1000; ++i) {
    const auto* at = walk.step();
    if (at == nullptr) continue;
    ++occurred;
    EXPECT_TRUE(occurs(walked, *at));
    const auto& x = at->tensors[0].shape.sizes;
    const auto& z = at->tensors[2].shape.sizes;
    if (x[x.rank() - 1] != z[z.rank() - 1] && x[x.rank() - 2] == z[z.rank() - 2]) ++uneven;
    if (x.rank() != z.rank()) ++stretched;
  }
  EXPECT_GT(occurred, 150);
  EXPECT_GT(uneven, 5);
  EXPECT_GT(stretched, 20);
}

// All variables of one operand have one element, and those of the other have more.
TEST(OccurrenceWalk, ReachesJointlyScaledSizes) {
  const auto walked = rule(
      "(add (layer_norm ?x ?y ?z) (layer_norm ?u ?v ?w)) => (add (layer_norm ?u ?v ?w) (layer_norm "
      "?x ?y ?z))");
  const auto near = make_instance({{4}, {4}, {4}, {4}, {4}, {4}});
  OccurrenceWalk walk(walked, {&near, 1}, 1);
  int stretched = 0;
  for (int i = 0; i < 700; ++i) {
    const auto* at = walk.step();
    if (at == nullptr) continue;
    const auto one = [&](std::size_t t) { return at->tensors[t].shape.sizes.count() == 1; };
    if (one(3) && one(4) && one(5) && !one(0) && !one(1) && !one(2)) ++stretched;
  }
  EXPECT_GT(stretched, 3);
}

// Reaches a sum of two sizes if both operands are results, and a dimension behind the others.
TEST(OccurrenceWalk, ReachesSizesComputedByOperators) {
  const auto walked = rule(
      "(linear (concat ?x ?y axis=1) (concat (constant shape=[?n, ?n] kind=\"eye\" value=1) ?z "
      "axis=1)) => (linear (concat ?x ?y axis=1) (concat (constant shape=[?n, ?n] kind=\"eye\" "
      "value=1) ?z axis=1))");
  auto near = make_instance({{4, 4}, {4, 4}, {4, 4}});
  near.symbols.emplace_back(std::int64_t{4});
  OccurrenceWalk walk(walked, {&near, 1}, 1);
  int of_rank_3 = 0;
  for (int i = 0; i < 1500; ++i) {
    const auto* at = walk.step();
    if (at != nullptr && at->tensors[0].shape.rank() == 3) ++of_rank_3;
  }
  EXPECT_GT(of_rank_3, 3);
}

TEST(OccurrenceWalk, ReachesDegreesNamedByTheRule) {
  const auto walked = rule("(combine ?x dim=0 degree=5) => (combine (relu ?x) dim=0 degree=5)");
  auto near = make_instance({{10, 4}});
  near.tensors[0].shape.degrees[0] = 5;
  OccurrenceWalk walk(walked, {&near, 1}, 1);
  int occurred = 0;
  for (int i = 0; i < 300; ++i) occurred += walk.step() == nullptr ? 0 : 1;
  EXPECT_GT(occurred, 50);
}

TEST(NoveltyFilter, AcceptsNewPairs) {
  NoveltyFilter seen;
  EXPECT_TRUE(seen.is_new(make_instance({{2, 3}, {3, 2}})));
  EXPECT_FALSE(
      seen.is_new(make_instance({{4, 5}, {5, 4}})));  // no size is 1, and the same sizes are equal
  EXPECT_TRUE(seen.is_new(make_instance({{1, 3}, {3, 1}})));
  EXPECT_TRUE(seen.is_new(make_instance({{2, 3}, {3, 1}})));
  EXPECT_TRUE(seen.is_new(make_instance({{3}, {3, 2}})));
  EXPECT_FALSE(seen.is_new(make_instance({{5}, {5, 4}})));
}

}  // namespace
}  // namespace tandem::verify
