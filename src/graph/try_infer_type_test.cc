#include "graph/try_infer_type.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "graph/graph.h"
#include "ops/registry.h"
#include "ops/trial.h"

namespace tandem::graph {
namespace {

ops::Op op(std::string_view name, const ops::AttributeList& attributes) {
  return ops::parse_op(ops::find_op(name), attributes);
}

std::optional<TensorType> by_graph(const ops::Op& op, std::span<const TensorType> inputs) {
  try {
    return infer_result_type(op, inputs);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::optional<TensorType> try_type(const ops::Op& op, std::span<const TensorType> inputs) {
  try {
    return try_infer_type(op, inputs);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

struct Use {
  ops::Op op;
  std::size_t inputs;
  std::size_t rank;           // mean of the drawn ranks
  bool fits_nothing = false;  // whether its attributes fit no operand
};

std::vector<Use> uses() {
  return {
      {op("conv2d", {}), 2, 4},
      {op("conv2d", {{"groups", "2"}, {"stride", "[2, 1]"}}), 2, 4},
      {op("conv2d", {{"padding", "[1, 0]"}}), 2, 4},
      {op("conv2d", {{"padding", "[-1, 0]"}}), 2, 4, true},
      {op("max_pool2d", {{"kernel", "[2, 3]"}, {"padding", "[1, 1]"}}), 1, 4},
      {op("avg_pool2d", {{"kernel", "[2, 2]"}, {"padding", "[2, 0]"}}), 1, 4, true},
      {op("split", {{"axis", "1"}, {"parts", "2"}, {"part", "1"}}), 1, 2},
      {op("split", {{"parts", "2"}, {"part", "2"}}), 1, 2, true},
      {op("slice", {{"axis", "1"}, {"begin", "1"}, {"size", "2"}}), 1, 2},
      {op("pad", {{"before", "1"}}), 1, 2},
      {op("pad", {{"before", "-1"}}), 1, 2, true},
      {op("reshape", {{"shape", "[2, -1]"}}), 1, 2},
      {op("reshape", {{"shape", "[3, 4]"}}), 1, 3},
      {op("flatten", {{"axis", "2"}}), 1, 3},
      {op("concat", {{"axis", "1"}}), 2, 2},
      {op("linear", {}), 2, 2},
      {op("matmul", {}), 2, 3},
      {op("transpose", {{"perm", "[1, 0, 2]"}}), 1, 3},
      {op("layer_norm", {}), 3, 1},
      {op("add", {}), 2, 2},
  };
}

// Tests that try_infer_type agrees with a graph, on operands that mostly do not fit.
TEST(TryInferType, AgreesWithTheGraph) {
  std::mt19937 random(1);
  int misfits = 0;
  for (const auto& use : uses()) {
    int fit = 0;
    for (int i = 0; i < 2000; ++i) {
      std::vector<TensorType> inputs(use.inputs);
      for (auto& input : inputs) {
        Shape sizes;
        const auto rank = use.rank + (random() % 8 == 0 ? 1 : 0) - (random() % 8 == 0 ? 1 : 0);
        while (sizes.rank() < rank) sizes.push_back(1 + static_cast<std::int64_t>(random() % 4));
        input.shape = ParallelShape(sizes);
      }
      const auto expected = by_graph(use.op, inputs);
      ASSERT_EQ(try_type(use.op, inputs), expected)
          << use.op.name() << " " << use.op.attribute_text();
      ++(expected ? fit : misfits);
    }
    EXPECT_EQ(fit == 0, use.fits_nothing) << use.op.name() << " " << use.op.attribute_text();
  }
  EXPECT_GT(misfits, 10000);
}

// Outside of a trial, an operator reports why it rejects its operands.
TEST(TryInferType, EndsATrialWithItsScope) {
  const auto split = op("split", {{"parts", "2"}});
  const std::vector<Shape> sizes = {{3}};
  {
    const ops::Trial trial;
    EXPECT_EQ(split.spec().index_text(split.raw(), sizes), "");
    { const ops::Trial inner; }
    EXPECT_EQ(split.spec().index_text(split.raw(), sizes), "");
  }
  EXPECT_THROW((void)split.spec().index_text(split.raw(), sizes), UserError);
}

}  // namespace
}  // namespace tandem::graph
