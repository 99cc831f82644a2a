#include "search/complexity.h"

#include <gtest/gtest.h>

#include "search/pool.h"

namespace tandem::search {
namespace {

Complexity complexity(const char* text) {
  return compute_complexity(strategies::parse_setting(text));
}

TEST(Simplicity, CountsKindsOfParallelismBeforeFeatures) {
  const char* const from_the_simplest[] = {"dp",
                                           "fsdp",
                                           "dp:micro=4,recompute=full",
                                           "megatron:tp=2,dp=4",
                                           "megatron:tp=2,dp=4,zero=1",
                                           "megatron:tp=2,dp=2,pp=2,micro=4",
                                           "megatron:tp=2,dp=2,pp=2,interleave=2,micro=4"};
  for (std::size_t i = 0; i + 1 < std::size(from_the_simplest); ++i) {
    EXPECT_LT(complexity(from_the_simplest[i]), complexity(from_the_simplest[i + 1]))
        << from_the_simplest[i];
  }
  EXPECT_EQ(complexity("fsdp"), complexity("deepspeed:zero=2"));
  // All pipelines have micro-batches, so their number does not matter.
  EXPECT_EQ(complexity("megatron:tp=1,dp=2,pp=4,micro=4"),
            complexity("megatron:tp=1,dp=2,pp=4,micro=8"));
}

TEST(Simplicity, RanksLayoutsAndRewritesLast) {
  const Candidate layouts{.name = "search", .choices = {}};
  auto rewritten = layouts;
  rewritten.rewritten = std::make_shared<const Rewritten>(
      Rewritten{.graph = {}, .derivation = rewrite::Derivation(1), .rules = {}});
  Candidate plain{.name = "fsdp", .choices = {}};
  plain.setting = strategies::parse_setting("fsdp");
  auto in_part = plain;
  in_part.is_in_part = true;
  EXPECT_LT(compute_complexity(plain), compute_complexity(in_part));
  EXPECT_LT(compute_complexity(in_part), compute_complexity(layouts));
  EXPECT_LT(compute_complexity(layouts), compute_complexity(rewritten));
}

// With a tolerance the plan is at most that much slower. Faster plans are more complicated and are
// reported in addition. Without a tolerance the plan is the fastest.
TEST(Simplicity, TradesTimeWithinTheTolerance) {
  const auto network = models::parse_model("gpt2:layers=6");
  const auto model = network.build(64, DType::kFp32);
  const auto machine = machine::load_machine("dgx_a100:1");
  Options options;
  options.optimizer = plan::Optimizer::kAdam;
  options.network = {&network, 64, DType::kFp32};
  const auto fastest = search(model, machine, options);
  ASSERT_TRUE(fastest.best.has_value());
  EXPECT_EQ(fastest.best->simulation.iteration, fastest.fastest);
  EXPECT_TRUE(fastest.faster.empty());
  auto slower = fastest.fastest;
  for (const double tolerance : {0.01, 0.1, 1.0, 10.0}) {
    SCOPED_TRACE(tolerance);
    options.tolerance = tolerance;
    const auto found = search(model, machine, options);
    ASSERT_TRUE(found.best.has_value());
    const auto time = found.best->simulation.iteration;
    EXPECT_EQ(found.fastest, fastest.fastest);
    EXPECT_LE(time.value, (1 + tolerance) * found.fastest.value);
    EXPECT_GE(time, slower);
    slower = time;
    EXPECT_LE(found.lower_bound.value(), found.fastest);
    for (const auto& row : found.faster) {
      EXPECT_LT(row.simulation.iteration, time) << row.name;
      EXPECT_TRUE(row.feasible);
    }
    ASSERT_TRUE(found.runner_up.has_value());
    EXPECT_GE(found.runner_up->simulation.iteration, time);
    EXPECT_NE(found.runner_up->name, found.best->name);
    options.threads = 3;
    EXPECT_EQ(search(model, machine, options).best->name, found.best->name);
    options.threads = 1;
    if (tolerance == 10.0) {
      EXPECT_EQ(found.best->name, "dp");
    }
  }
}

}  // namespace
}  // namespace tandem::search
