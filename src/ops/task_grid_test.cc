#include "ops/task_grid.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/registry.h"

namespace tandem::ops {
namespace {

ParallelShape shape(std::string_view text) {
  const auto parsed = parse_parallel_shape(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed.value_or(ParallelShape{});
}

Signature make_signature(const Op& op, const std::vector<ParallelShape>& inputs) {
  std::vector<Shape> sizes;
  for (const auto& in : inputs) sizes.push_back(in.sizes);
  return get_signature(op, sizes);
}

struct Case {
  std::string_view op;
  AttributeList attributes;
  std::vector<std::string_view> inputs;
  std::string_view output;  // or the text of the error
};

// Returns the output's type, or the error's text. For a legal case it also checks that the grid
// implies these input types.
std::string run(const Case& c) {
  std::vector<ParallelShape> inputs;
  for (auto in : c.inputs) inputs.push_back(shape(in));
  const auto s = make_signature(parse_op(find_op(c.op), c.attributes), inputs);
  try {
    const auto grid = infer_grid(s, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      EXPECT_EQ(compute_input_shape(s, grid, i), inputs[i]);
    return to_text(compute_output_shape(s, grid));
  } catch (const UserError& e) {
    return e.what();
  }
}

const AttributeList kRelued = {{"act", "relu"}};
const AttributeList kGrouped = {{"index", "\"b (kv g) s, b kv t -> b (kv g) s t\""}};
const AttributeList kPadded = {{"padding", "[1, 0]"}};
const AttributeList kProject = {{"index", "\"b s i, h d i -> b h s d\""}};

TEST(TaskGrid, InfersTypesOfLegalOperands) {
  const Case cases[] = {
      // linear [b k],[n k]
      {"linear", {}, {"[8, 4]", "[6, 4]"}, "[8, 6]"},
      {"linear", {}, {"[8/2, 4]", "[6, 4]*2"}, "[8/2, 6]"},        // data parallel
      {"linear", {}, {"[8, 4]*3", "[6/3, 4]"}, "[8, 6/3]"},        // column parallel
      {"linear", {}, {"[8, 4/2]", "[6, 4/2]"}, "[8, 6]+2"},        // row parallel
      {"linear", {}, {"[8/2, 4]*3", "[6/3, 4]*2"}, "[8/2, 6/3]"},  // data and column parallel
      // Data, column and row parallel.
      {"linear", {}, {"[8/2, 4/2]*3", "[6/3, 4/2]*2"}, "[8/2, 6/3]+2"},
      {"linear", {}, {"[8, 4]*2", "[6, 4]*2"}, "[8, 6]*2"},      // redundant
      {"linear", {}, {"[8/2, 4]*2", "[6, 4]*4"}, "[8/2, 6]*2"},  // redundant and data parallel
      {"linear", {}, {"[8, 4]+2", "[6, 4]*2"}, "[8, 6]+2"},      // partial input
      {"linear", {}, {"[8, 4]*2", "[6, 4]+2"}, "[8, 6]+2"},      // partial weight
      {"linear", {}, {"[8, 4/2]+3", "[6, 4/2]*3"}, "[8, 6]+6"},  // contraction and partial input
      {"linear", {}, {"[8/2, 3/3, 4]", "[6, 4]*6"}, "[8/2, 3/3, 6]"},  // leading dimensions
      {"linear", {}, {"[8/2, 4]", "[6, 4]*2", "[6]*2"}, "[8/2, 6]"},   // with bias
      {"linear", kRelued, {"[8, 4]*3", "[6/3, 4]", "[6/3]"}, "[8, 6/3]"},
      {"linear", kRelued, {"[8/2, 4]*3", "[6/3, 4]*2", "[6/3]*2"}, "[8/2, 6/3]"},
      {"relu", {}, {"[8/2, 4/2]*3"}, "[8/2, 4/2]*3"},
      {"add", {}, {"[8/2]*3", "[8/2]*3"}, "[8/2]*3"},
      {"add", {}, {"[8/2]+3", "[8/2]+3"}, "[8/2]+3"},
      {"add", {}, {"[8]*2+3", "[8]*2+3"}, "[8]*2+3"},
      {"matmul", {}, {"[2/2, 4, 6]", "[2/2, 6, 8]"}, "[2/2, 4, 8]"},
      {"matmul", {}, {"[4, 6]+2", "[6, 8]*2"}, "[4, 8]+2"},
      {"matmul", {}, {"[4/2, 6]+2", "[6, 8]*4"}, "[4/2, 8]+2"},
      {"matmul", {}, {"[4, 6/3]+2", "[6/3, 8]*2"}, "[4, 8]+6"},
      {"contract",
       kProject,
       {"[2/2, 4, 6]*2", "[2/2, 3, 6]*2"},
       "[2/2, 2/2, 4, 3]"},  // head and data parallel
      {"contract", kProject, {"[2, 4/4, 6/2]", "[2, 3, 6/2]*4"}, "[2, 2, 4/4, 3]+2"},
      {"embedding_bag", {}, {"[8/2, 5]", "[6, 4]*2"}, "[8/2, 4]"},
      // Table sharded by rows: a partial sum.
      {"embedding_bag", {}, {"[8, 5]*3", "[6/3, 4]"}, "[8, 4]+3"},
      {"embedding_bag", {}, {"[8, 5]*2", "[6, 4/2]"}, "[8, 4/2]"},  // table sharded by columns
      {"embedding_bag", {}, {"[8, 5]*2", "[6, 4]+2"}, "[8, 4]+2"},
      {"softmax", {}, {"[8/2, 4]*3"}, "[8/2, 4]*3"},
      {"layer_norm", {}, {"[8/2, 4]", "[4]*2", "[4]*2"}, "[8/2, 4]"},
      {"concat", {{"axis", "1"}}, {"[8/2, 4]", "[8/2, 6]"}, "[8/2, 10]"},
      {"concat", {{"axis", "1"}}, {"[8/2, 4]+3", "[8/2, 6]+3"}, "[8/2, 10]+3"},
      // If the axis is partitioned, the devices read windows of the operands.
      {"concat", {{"axis", "1"}}, {"[8, 4/2]", "[8, 6/2]"}, "[8, 10/2]"},
      // A dimension of two factors is partitioned along the first, then along the second. Operands
      // without the second factor are replicated.
      {"contract", kGrouped, {"[2, 12/4, 5]", "[2, 4/4, 6]"}, "[2, 12/4, 5, 6]"},
      {"contract", kGrouped, {"[2, 12/12, 5]", "[2, 4/4, 6]*3"}, "[2, 12/12, 5, 6]"},
      // For a convolution: rows of the image, input and output channels, rows of the kernel.
      {"conv2d", kPadded, {"[2, 3, 8/2, 4]", "[5, 3, 3, 1]*2"}, "[2, 5, 8/2, 4]"},
      {"conv2d", kPadded, {"[2, 3/3, 8, 4]", "[5, 3/3, 3, 1]"}, "[2, 5, 8, 4]+3"},
      {"conv2d", kPadded, {"[2, 3, 8, 4]*5", "[5/5, 3, 3, 1]"}, "[2, 5/5, 8, 4]"},
      {"conv2d", kPadded, {"[2, 3, 8, 4]*3", "[5, 3, 3/3, 1]"}, "[2, 5, 8, 4]+3"},
      {"row_max", {}, {"[4/2, 6/3]"}, "[4/2]^3"},
      {"mse", {}, {"[8/2, 4]", "[8/2, 4]"}, "[]+2"},
      {"mse", {}, {"[8/2, 4/2]*3", "[8/2, 4/2]*3"}, "[]*3+4"},
  };
  for (const auto& c : cases) EXPECT_EQ(run(c), c.output) << c.op << " of " << c.inputs[0];
}

TEST(TaskGrid, NamesTheFactorAndBothValuesInErrors) {
  const Case cases[] = {
      {"linear",
       {},
       {"[8, 4/2]", "[6, 4]*2"},
       "factor 'k' has degree 2 in input 0, but 1 in input 1"},
      {"linear",
       {},
       {"[8, 4]", "[6/3, 4]"},
       "input 0 has 1 replicas, but needs a multiple of 3 (replicate it over the factors that it "
       "lacks)"},
      {"linear",
       {},
       {"[8/2, 4]", "[6, 4]"},
       "input 1 has 1 replicas, but needs a multiple of 2 (replicate it over the factors that it "
       "lacks)"},
      {"linear",
       {},
       {"[8/2, 4]", "[6, 4]*3"},
       "input 1 has 3 replicas, but needs a multiple of 2 (replicate it over the factors that it "
       "lacks)"},
      {"linear",
       {},
       {"[8/2, 4]", "[6, 4]*4"},
       "input 1 implies 2 redundant replicas, but input 0 implies 1"},
      {"linear",
       {},
       {"[8, 4]*2", "[6, 4]"},
       "input 1 implies 1 redundant replicas, but input 0 implies 2"},
      // A bias or an activation needs the whole sum.
      {"linear",
       {},
       {"[8, 4/2]", "[6, 4/2]", "[6]*2"},
       "factor 'k' must not be sharded, but has degree 2 (insert a combine before it)"},
      {"linear",
       kRelued,
       {"[8, 4/2]", "[6, 4/2]"},
       "factor 'k' must not be sharded, but has degree 2 (insert a combine before it)"},
      {"linear",
       {},
       {"[8, 4]+2", "[6, 4]*2", "[6]*2"},
       "a partial sum (of 2) cannot pass through input 0 (insert a reduce before it)"},
      {"linear",
       {},
       {"[8, 4]+2", "[6, 4]+2"},
       "a partial sum (of 2) cannot pass through input 0 (insert a reduce before it)"},
      {"linear",
       {},
       {"[8, 4]+2", "[6, 4]+3"},
       "3 partial sums in input 1 conflict with 2 in an earlier input"},
      {"linear",
       {},
       {"[8, 4]+2", "[6, 4]"},
       "input 1 has 1 replicas, but needs a multiple of 2 (replicate it over the factors that it "
       "lacks)"},
      {"relu",
       {},
       {"[8]+2"},
       "a partial sum (of 2) cannot pass through input 0 (insert a reduce before it)"},
      {"add",
       {},
       {"[8]+2", "[8]*2"},
       "a partial sum (of 2) cannot pass through input 0 (insert a reduce before it)"},
      {"add",
       {},
       {"[8]*2", "[8]+2"},
       "a partial sum (of 2) cannot pass through input 1 (insert a reduce before it)"},
      {"add", {}, {"[8/2]", "[8]*2"}, "factor 'd0' has degree 2 in input 0, but 1 in input 1"},
      {"add",
       {},
       {"[8]*2", "[8]*3"},
       "input 1 implies 3 redundant replicas, but input 0 implies 2"},
      {"softmax",
       {},
       {"[8, 4/2]"},
       "factor 'c' must not be sharded, but has degree 2 (insert a combine before it)"},
      {"layer_norm",
       {},
       {"[8, 4/2]", "[4/2]", "[4/2]"},
       "factor 'h' must not be sharded, but has degree 2 (insert a combine before it)"},
      {"layer_norm",
       {},
       {"[8, 4]*2", "[4]+2", "[4]*2"},
       "a partial sum (of 2) cannot pass through input 1 (insert a reduce before it)"},
      {"concat",
       {{"axis", "1"}},
       {"[8, 6/3]", "[8, 4/2]"},
       "factor 'c' has degree 3 in input 0, but 2 in input 1"},
      {"concat",
       {{"axis", "1"}},
       {"[8, 2/2]", "[8, 3]"},
       "factor 'c' has degree 2 in input 0, but 1 in input 1"},
      {"contract",
       kGrouped,
       {"[2, 12/6, 5]", "[2, 4, 6]*6"},
       "dim 1 of input 0 has degree 6, which does not fit its factors (kv g) (the degree must use "
       "up one factor before it divides the next)"},
      {"contract",
       kGrouped,
       {"[2, 12/4, 5]", "[2, 4/2, 6]*2"},
       "factor 'kv' has degree 4 in input 0, but 2 in input 1"},
      {"contract",
       {{"index", "\"a b c -> b (a c)\""}},
       {"[2, 3, 4/2]"},
       "factor 'c' has degree 2, but 'a', which precedes it in the result, has only 1 of 2"},
      {"row_max",
       {},
       {"[4, 6]^2"},
       "a partial maximum (of 2) cannot pass through input 0 (insert a reduce before it)"},
      {"conv2d",
       {},
       {"[2, 3, 8/2, 4]", "[5, 3, 2, 1]*2"},
       "factor 'y' is 7, which degree 2 does not divide (the nearest degree that does is 1)"},
      {"concat",
       {},
       {"[8]+2", "[4]*2"},
       "a partial sum (of 2) cannot pass through input 0 (insert a reduce before it)"},
      {"embedding_bag",
       {},
       {"[8, 5]+2", "[6, 4]*2"},
       "a partial sum (of 2) cannot pass through input 0 (insert a reduce before it)"},
      {"mse",
       {},
       {"[8]+2", "[8]*2"},
       "a partial sum (of 2) cannot pass through input 0 (insert a reduce before it)"},
  };
  for (const auto& c : cases) EXPECT_EQ(run(c), c.output) << c.op << " of " << c.inputs[0];
}

// The example in the header: linear [b/2 k],[n/3 k].
TEST(TaskGrid, ListsTheShardsThatATaskReads) {
  const std::vector<ParallelShape> inputs = {shape("[4/2, 5]*3"), shape("[6/3, 5]*2")};
  const auto s = make_signature(parse_op(kLinear, {}), inputs);
  const auto grid = infer_grid(s, inputs);
  ASSERT_EQ(grid.tasks(), 6);
  for (std::int64_t task = 0; task < 6; ++task) {
    const auto at = compute_position(grid, task);
    const auto b = task / 3;
    const auto n = task % 3;
    EXPECT_EQ(find_input_shard(s, grid, at, 0), (ShardIndex{{b, 0}, n, 0})) << task;
    EXPECT_EQ(find_input_shard(s, grid, at, 1), (ShardIndex{{n, 0}, b, 0})) << task;
    EXPECT_EQ(find_output_shard(s, grid, at), (ShardIndex{{b, n}, 0, 0})) << task;
  }
}

// The degrees are: contracted 2, partial sums passing through 3, redundant replicas 2.
TEST(TaskGrid, OrdersCoordinatesAsDocumented) {
  const std::vector<ParallelShape> inputs = {shape("[4, 6/2]*2+3"), shape("[5, 6/2]*6")};
  const auto s = make_signature(parse_op(kLinear, {}), inputs);
  const auto grid = infer_grid(s, inputs);
  ASSERT_EQ(grid.tasks(), 12);
  for (std::int64_t task = 0; task < 12; ++task) {
    const auto at = compute_position(grid, task);
    const auto k = task / 6;
    const auto through = task / 2 % 3;
    const auto replica = task % 2;
    EXPECT_EQ(find_input_shard(s, grid, at, 0), (ShardIndex{{0, k}, replica, through})) << task;
    EXPECT_EQ(find_input_shard(s, grid, at, 1), (ShardIndex{{0, k}, through * 2 + replica, 0}))
        << task;
    EXPECT_EQ(find_output_shard(s, grid, at), (ShardIndex{{0, 0}, replica, k * 3 + through}))
        << task;
  }
}

TEST(ParallelOperators, HaveTypesAndErrors) {
  const auto run_parallel = [](std::string_view op, const AttributeList& attributes,
                               std::string_view in) {
    const TensorType type{shape(in), DType::kBf16};
    try {
      const auto made = parse_op(find_op(op), attributes);
      const auto out = made.spec().type(made.raw(), std::vector{type});
      EXPECT_EQ(out.dtype, DType::kBf16);
      return to_text(out.shape);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
  };
  const auto dim = [](std::string d, std::string degree) {
    return AttributeList{{"dim", std::move(d)}, {"degree", std::move(degree)}};
  };
  const auto degree = [](std::string d) { return AttributeList{{"degree", std::move(d)}}; };
  struct ParallelCase {
    std::string_view op;
    AttributeList attributes;
    std::string_view in, out;
  };
  const ParallelCase cases[] = {
      {"partition", dim("1", "2"), "[4, 6/3]*2", "[4, 6/6]*2"},
      {"combine", dim("0", "2"), "[8/4]+3", "[8/2]+3"},
      {"replicate", degree("3"), "[8]*2+2", "[8]*6+2"},
      {"reduce", degree("2"), "[8]*2+6", "[8]*2+3"},
      {"unreplicate", degree("2"), "[8]*6+2", "[8]*3+2"},
      {"partition", {}, "[8]", "[8]"},  // degree 1 changes nothing
      {"partition", dim("0", "4"), "[6]",
       "dim 0 has 6 elements per shard, which degree 4 does not divide (the nearest degree that "
       "does is 3)"},
      {"partition", dim("0", "2"), "[6/2]",
       "dim 0 has 3 elements per shard, which degree 2 does not divide (the nearest degree that "
       "does is 1)"},
      {"partition", dim("0", "9000000000000000000"), "[6]",
       "degree 9000000000000000000 is not in 1..2^30"},
      {"partition", dim("2", "2"), "[6, 4]", "dim 2 is out of range for a tensor of rank 2"},
      {"combine", dim("-1", "2"), "[6/2]", "dim -1 is out of range for a tensor of rank 1"},
      {"combine", dim("0", "2"), "[6/3]", "dim 0 has degree 3, which is not divisible by 2"},
      {"replicate", degree("0"), "[6]", "degree 0 is not in 1..2^30"},
      {"partition", dim("0", "-2"), "[6]", "degree -2 is not in 1..2^30"},
      {"reduce", degree("2"), "[6]*2",
       "the tensor has 1 partial sums, which is not divisible by 2"},
      {"unreplicate", degree("2"), "[6]*3",
       "the tensor has 3 replicas, which is not divisible by 2"},
  };
  for (const auto& c : cases) EXPECT_EQ(run_parallel(c.op, c.attributes, c.in), c.out) << c.op;
}

}  // namespace
}  // namespace tandem::ops
