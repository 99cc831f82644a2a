#include "search/least_memory.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "models/model.h"
#include "search/search.h"

namespace tandem::search {
namespace {

constexpr double kWeights = 4.0 * 4 * 64 * 64;  // bytes in fp32
constexpr double kDevices = 6;

graph::Graph mlp() {
  return models::parse_model("mlp:layers=4,hidden=64,inputs=64,outputs=64").build(6, DType::kFp32);
}

TEST(LeastStored, CountsWeightsStatesAndStoredGradients) {
  const auto model = mlp();
  EXPECT_DOUBLE_EQ(compute_least_stored(model, plan::Optimizer::kSgd, {}).value, kWeights);
  EXPECT_DOUBLE_EQ(compute_least_stored(model, plan::Optimizer::kAdam, {}).value, 4 * kWeights);
}

TEST(LeastMemory, ExceedsAllDevicesTogether) {
  const auto model = mlp();
  const auto machine = machine::load_machine("summit:1");
  Options options;
  options.memory = Bytes{kWeights / kDevices};
  EXPECT_FALSE(is_too_large(model, machine, options));
  options.memory = Bytes{kWeights / kDevices - 1};
  EXPECT_TRUE(is_too_large(model, machine, options));
}

// Whatever the options, a search that finds nothing reports what came nearest.
TEST(LeastMemory, LeavesASmallestCandidateForAdvice) {
  const auto model = mlp();
  const auto machine = machine::load_machine("summit:1");
  Options options;
  options.memory = Bytes{kWeights / kDevices - 1};
  for (const auto semantics : {plan::Semantics::kSynchronous, plan::Semantics::kDelayed1}) {
    options.semantics = semantics;
    const auto found = search(model, machine, options);
    EXPECT_FALSE(found.best.has_value());
    EXPECT_GT(found.smallest.over, Bytes{}) << name(semantics);
  }
}

}  // namespace
}  // namespace tandem::search
