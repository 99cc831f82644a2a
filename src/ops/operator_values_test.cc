// Values computed by hand for operators with an intricate meaning, and other properties that
// operators define: costs, densities, constants.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/signature.h"
#include "ops/sources.h"
#include "ops/use_test_support.h"
#include "term/evaluate.h"

namespace tandem::ops {
namespace {

using Values = std::vector<double>;

struct Tensor {
  Shape shape;
  Values values;
};

Values run(const std::string& op, const std::vector<std::string>& attributes,
           const std::vector<Tensor>& inputs) {
  Use use{op, attributes};
  std::vector<Dense<double>> dense;
  for (const auto& in : inputs) {
    use.inputs.push_back(in.shape);
    dense.emplace_back(in.shape, in.values);
  }
  const auto& s = get_signature(make(use), use.inputs);
  std::vector<term::Operand<double>> operands;
  for (const auto& d : dense) operands.emplace_back(d);
  return term::Evaluation<double>(s.meaning, make_full_ranges(s.map), operands)
      .forward(s.map.output)
      .data;
}

struct Sum {
  std::string op;
  std::vector<std::string> attributes;
  std::vector<Tensor> inputs;
  Values out;
};

void expect_all(const std::vector<Sum>& sums) {
  for (const auto& sum : sums) {
    SCOPED_TRACE(sum.op + " " + join(sum.attributes, " "));
    const auto out = run(sum.op, sum.attributes, sum.inputs);
    ASSERT_EQ(out.size(), sum.out.size());
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], sum.out[i], 1e-6) << i;
  }
}

const Values kOneToNine = {1, 2, 3, 4, 5, 6, 7, 8, 9};
const Values kMinusOneToNine = {-1, -2, -3, -4, -5, -6, -7, -8, -9};

TEST(Values, Elementwise) {
  const Tensor x = {{3}, {-2, 0, 1}};
  expect_all({
      {"abs", {}, {x}, {2, 0, 1}},
      {"clip", {"min=-1", "max=0.5"}, {x}, {-1, 0, 0.5}},
      {"gelu", {}, {x}, {-0.0455003, 0, 0.8413447}},
      {"gelu_tanh", {}, {x}, {-0.0454023, 0, 0.8411920}},
      {"leaky_relu", {"slope=0.25"}, {x}, {-0.5, 0, 1}},
      {"reciprocal", {}, {{{2}, {4, -0.5}}}, {0.25, -2}},
      {"rsqrt", {}, {{{2}, {4, 0.25}}}, {0.5, 2}},
      {"scale", {"factor=3"}, {x}, {-6, 0, 3}},
      {"silu", {}, {x}, {-0.2384058, 0, 0.7310586}},
      {"square", {}, {x}, {4, 0, 1}},
      {"add", {}, {{{2, 1}, {10, 20}}, {{3}, {1, 2, 3}}}, {11, 12, 13, 21, 22, 23}},
      {"div", {}, {{{2}, {1, 3}}, {{}, {2}}}, {0.5, 1.5}},
      {"max", {}, {{{3}, {1, 5, 2}}, {{3}, {3, 4, 2}}}, {3, 5, 2}},
      {"min", {}, {{{3}, {1, 5, 2}}, {{3}, {3, 4, 2}}}, {1, 4, 2}},
      {"sub", {}, {{{2}, {1, 3}}, {{2}, {5, 1}}}, {-4, 2}},
  });
}

TEST(Values, Contractions) {
  expect_all({
      {"linear", {"act=silu"}, {{{1, 2}, {1, 2}}, {{1, 2}, {1, 1}}, {{1}, {-2}}}, {0.7310586}},
      {"matmul", {}, {{{2, 1, 2}, {1, 2, 3, 4}}, {{2, 1}, {1, 10}}}, {21, 43}},
      {"matmul", {}, {{{1, 1, 2}, {1, 2}}, {{2, 2, 1}, {1, 10, 3, 4}}}, {21, 11}},
      {"contract",
       {"index=\"a b, b c, c -> a\""},
       {{{1, 2}, {1, 2}}, {{2, 2}, {1, 2, 3, 4}}, {{2}, {1, 10}}},
       {21 + 2 * 43}},
      {"contract",
       {"index=\"(kv g), kv -> g kv\"", "scale=2"},
       {{{4}, {1, 2, 3, 4}}, {{2}, {1, 10}}},
       {2, 60, 4, 80}},
  });
}

TEST(Values, Conv2d) {
  const Tensor image = {{1, 1, 3, 3}, kOneToNine};
  const Tensor diagonal = {{1, 1, 2, 2}, {1, 0, 0, 1}};
  expect_all({
      {"conv2d", {}, {image, diagonal}, {6, 8, 12, 14}},
      {"conv2d", {"stride=[2, 2]", "padding=[1, 1]"}, {image, diagonal}, {1, 3, 7, 14}},
      {"conv2d", {"dilation=[2, 2]"}, {image, diagonal}, {10}},
      // top, left, bottom, right
      {"conv2d", {"dilation=[2, 2]", "padding=[0, 0, 2, 0]"}, {image, diagonal}, {10, 4, 7}},
      {"conv2d",
       {"groups=2"},
       {{{1, 2, 1, 2}, {1, 2, 3, 4}}, {{2, 1, 1, 1}, {10, 100}}, {{2}, {1, 2}}},
       {11, 21, 302, 402}},
      {"conv2d", {"act=relu"}, {{{1, 1, 1, 2}, {1, -1}}, {{1, 1, 1, 1}, {2}}}, {2, 0}},
      // Two input channels and weights [k, c] make a matmul at every position.
      {"conv2d", {}, {{{1, 2, 1, 2}, {1, 2, 3, 4}}, {{2, 2, 1, 1}, {1, 10, 0, 1}}}, {31, 42, 3, 4}},
  });
}

TEST(Values, Pooling) {
  const Tensor image = {{1, 1, 3, 3}, kOneToNine};
  const std::vector<std::string> halves = {"kernel=[2, 2]", "stride=[2, 2]"};
  const auto with = [&](std::initializer_list<std::string> more) {
    auto out = halves;
    out.insert(out.end(), more);
    return out;
  };
  expect_all({
      {"max_pool2d", halves, {image}, {5}},
      {"max_pool2d", with({"ceil=true"}), {image}, {5, 6, 8, 9}},
      // Padding is never the maximum, although it exceeds every element.
      {"max_pool2d", with({"padding=[1, 1]"}), {{{1, 1, 3, 3}, kMinusOneToNine}}, {-1, -2, -4, -5}},
      // Without the limit, a rounded-up window would start in the padding on the right.
      {"max_pool2d",
       {"kernel=[1, 2]", "stride=[1, 3]", "padding=[0, 1]", "ceil=true"},
       {{{1, 1, 1, 2}, {3, 7}}},
       {3}},
      {"avg_pool2d", halves, {image}, {3}},
      {"avg_pool2d", with({"padding=[1, 1]"}), {image}, {0.25, 1.25, 2.75, 7}},
      {"avg_pool2d", with({"padding=[1, 1]", "count_padding=false"}), {image}, {1, 2.5, 5.5, 7}},
      // Elements beyond the padding are not part of a window.
      {"avg_pool2d", with({"ceil=true"}), {image}, {3, 4.5, 7.5, 9}},
      {"avg_pool2d", with({"ceil=true", "count_padding=false"}), {image}, {3, 4.5, 7.5, 9}},
      {"global_avg_pool", {}, {{{1, 2, 1, 2}, {1, 2, 3, 5}}}, {1.5, 4}},
  });
}

TEST(Values, BatchNormInGroups) {
  const Tensor x = {{4, 1}, {1, 3, 10, 30}};
  const Tensor one = {{1}, {1}};
  const Tensor zero = {{1}, {0}};
  expect_all({
      {"batch_norm", {"eps=0", "group=2"}, {x, one, zero}, {-1, 1, -1, 1}},
      {"batch_norm", {"eps=0", "group=2"}, {x, {{1}, {2}}, one}, {-1, 3, -1, 3}},
      {"batch_norm", {"eps=0"}, {{{4, 1}, {1, 3, 1, 3}}, one, zero}, {-1, 1, -1, 1}},
      // The statistics also run over the image: samples {1, 1} and {3, 3}.
      {"batch_norm", {"eps=0"}, {{{2, 1, 2}, {1, 1, 3, 3}}, one, zero}, {-1, -1, 1, 1}},
      {"batch_moments", {"group=2"}, {x}, {2, 5, 20, 500}},
      {"batch_moments", {}, {{{2, 1, 2}, {1, 1, 3, 3}}}, {2, 5}},
      {"batch_normalize",
       {"eps=0"},
       {x, {{2, 1, 2}, {2, 5, 20, 500}}, {{1}, {2}}, one},
       {-1, 3, -1, 3}},
      {"group_norm",
       {"eps=0", "groups=2"},
       {{{1, 4}, {1, 3, 10, 30}}, {{4}, {1, 1, 1, 2}}, {{4}, {0, 0, 0, 1}}},
       {-1, 1, -1, 3}},
      {"layer_norm", {"eps=0"}, {{{1, 2}, {1, 3}}, {{2}, {1, 5}}}, {-1, 5}},
      {"rms_norm", {"eps=0"}, {{{1, 2}, {1, 7}}, {{2}, {5, 10}}}, {1, 14}},
  });
}

TEST(Values, SoftmaxAndAttention) {
  const double log3 = std::log(3);
  expect_all({
      {"softmax", {}, {{{1, 2}, {0, log3}}}, {0.25, 0.75}},
      {"softmax", {"axis=0"}, {{{2, 2}, {0, 5, log3, 5}}}, {0.25, 0.5, 0.75, 0.5}},
      // A masked element is 0, however large its score.
      {"softmax", {"causal=true"}, {{{2, 2}, {5, 5000, 0, 0}}}, {1, 0, 0.5, 0.5}},
      // Two heads of q share one head of k and v.
      {"attention",
       {},
       {{{1, 2, 1, 1}, {1, 0}}, {{1, 1, 2, 1}, {0, log3}}, {{1, 1, 2, 1}, {4, 8}}},
       {7, 6}},
      {"attention",
       {"scale=0"},
       {{{1, 2, 1, 1}, {1, 0}}, {{1, 1, 2, 1}, {0, log3}}, {{1, 1, 2, 1}, {4, 8}}},
       {6, 6}},
      {"attention",
       {"causal=true"},
       {{{1, 1, 2, 1}, {1, 1}}, {{1, 1, 2, 1}, {0, log3}}, {{1, 1, 2, 1}, {4, 8}}},
       {4, 7}},
      // Four heads of q read two heads of k and v: 0 0 1 1.
      {"attention",
       {},
       {{{1, 4, 1, 1}, {1, 2, 3, 4}}, {{1, 2, 1, 1}, {1, 1}}, {{1, 2, 1, 1}, {10, 20}}},
       {10, 10, 20, 20}},
      {"cross_entropy",
       {},
       {{{2, 2}, {0, log3, 0, log3}}, {{2}, {1, 0}}},
       {(std::log(4.0 / 3) + std::log(4)) / 2}},
  });
}

TEST(Values, Lookups) {
  const Tensor table = {{3, 2}, {1, 2, 3, 4, 5, 6}};
  expect_all({
      {"embedding", {}, {{{2}, {2, 0}}, table}, {5, 6, 1, 2}},
      {"embedding_bag", {}, {{{1, 2}, {2, 0}}, table}, {6, 8}},
      {"embedding_bag", {"mode=mean"}, {{{1, 2}, {2, 0}}, table}, {3, 4}},
      {"embedding_bags", {}, {{{1, 2, 1}, {1, 0}}, {{2, 2, 1}, {1, 2, 3, 4}}}, {2, 3}},
      {"pick", {}, {table, {{3}, {1, 0, 1}}}, {2, 3, 6}},
  });
}

TEST(Values, Experts) {
  expect_all({
      // The gate chooses the first two of three equal scores.
      {"top_k_gate", {"k=2"}, {{{1, 4}, {1, 3, 3, 3}}}, {0, 0.5, 0.5, 0}},
      {"top_k_gate", {"k=1"}, {{{2, 2}, {2, 2, 1, 2}}}, {1, 0, 0, 1}},
      {"top_k_gate", {"k=2"}, {{{3}, {0, -5, std::log(3)}}}, {0.25, 0, 0.75}},
      {"top_k_gate", {"k=2"}, {{{2}, {0, std::log(3)}}}, {0.25, 0.75}},
      {"moe_dispatch", {}, {{{2, 1}, {5, 6}}, {{2, 2}, {0, 0.5, 1, 0}}}, {0, 6, 5, 0}},
      {"moe_combine", {}, {{{2, 2}, {0, 0.5, 1, 0}}, {{2, 2, 1}, {1, 2, 3, 4}}}, {1.5, 2}},
  });
}

TEST(Values, ShapesAndParts) {
  const Tensor x = {{2, 3}, {1, 2, 3, 4, 5, 6}};
  expect_all({
      {"append", {"axis=0"}, {{{1, 2}, {1, 2}}, {{2, 2}, {3, 4, 5, 6}}}, {1, 2, 3, 4, 5, 6}},
      {"concat", {"axis=1"}, {x, {{2, 1}, {7, 8}}}, {1, 2, 3, 7, 4, 5, 6, 8}},
      {"expand", {"shape=[2, 2, 2]"}, {{{2, 1}, {1, 2}}}, {1, 1, 2, 2, 1, 1, 2, 2}},
      {"flatten", {"axis=1"}, {x}, x.values},
      {"pad", {"axis=1", "before=1", "after=2"}, {{{1, 2}, {1, 2}}}, {0, 1, 2, 0, 0}},
      {"reshape", {"shape=[3, 2]"}, {{{6}, x.values}}, x.values},
      {"slice", {"axis=1", "begin=1", "size=2"}, {x}, {2, 3, 5, 6}},
      {"split", {"axis=-1", "parts=3", "part=1"}, {x}, {2, 5}},
      {"transpose", {"perm=[1, 0]"}, {x}, {1, 4, 2, 5, 3, 6}},
      {"reduce_sum", {"axes=[0]"}, {x}, {5, 7, 9}},
      {"reduce_mean", {}, {x}, {3.5}},
      {"reduce_max", {"axes=[-1]", "keep=true"}, {x}, {3, 6}},
      {"row_max", {}, {x}, {3, 6}},
  });
}

TEST(Values, Interaction) {
  // The pairs are (1, 0), (2, 0) and (2, 1).
  expect_all({{"interaction", {}, {{{1, 3, 2}, {1, 2, 3, 4, 5, 6}}}, {11, 17, 39}}});
}

TEST(Values, RopeRotatesPairsHalfAWidthApart) {
  const Values x = {1, 2, 3, 4};
  const double fast = 1;     // position 1, i = 0
  const double slow = 0.01;  // 10000^(-2 / 4)
  Values out = x;            // position 0 is not rotated
  out.push_back(x[0] * std::cos(fast) - x[2] * std::sin(fast));
  out.push_back(x[1] * std::cos(slow) - x[3] * std::sin(slow));
  out.push_back(x[2] * std::cos(fast) + x[0] * std::sin(fast));
  out.push_back(x[3] * std::cos(slow) + x[1] * std::sin(slow));
  expect_all({{"rope", {}, {{{2, 4}, {1, 2, 3, 4, 1, 2, 3, 4}}}, out}});
  const Values second(out.begin() + 4, out.end());
  expect_all({{"rope", {"first=1"}, {{{1, 4}, {1, 2, 3, 4}}}, second}});
}

TEST(Values, DropoutRetainsAndScalesAShare) {
  const Tensor x = {{1000}, Values(1000, 3)};
  EXPECT_EQ(run("dropout", {"p=0"}, {x}), x.values);
  const auto out = run("dropout", {"p=0.25", "origin=5"}, {x});
  int retained = 0;
  for (auto v : out) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4) < 1e-12) << v;
    retained += v != 0 ? 1 : 0;
  }
  EXPECT_NEAR(retained, 750, 50);
  EXPECT_NE(run("dropout", {"p=0.25", "origin=6"}, {x}), out);
}

// --- Costs that are not the meaning's ----------------------------------------------------------

TEST(Cost, OverridesWrongCountsOfTheDefinition) {
  const auto flops = [](const Use& use) {
    return get_signature(make(use), use.inputs).flops.value;
  };
  const std::vector<Shape> qkv = {{2, 4, 8, 16}, {2, 2, 8, 16}, {2, 2, 8, 16}};
  const double scores = 2 * 4 * 8 * 8;
  EXPECT_DOUBLE_EQ(flops({"attention", {}, qkv}), scores * (2 * 32 + 5));
  EXPECT_DOUBLE_EQ(flops({"attention", {"causal=true"}, qkv}), scores * (2 * 32 + 5) / 2);
  EXPECT_DOUBLE_EQ(flops({"embedding", {}, {{6, 5}, {1000, 4}}}), 6 * 5 * 4);
  EXPECT_DOUBLE_EQ(flops({"interaction", {}, {{2, 4, 8}}}), 2 * 2 * 6 * 8);
  EXPECT_DOUBLE_EQ(flops({"moe_dispatch", {"density=0.5"}, {{2, 3}, {2, 4}}}), 0.5 * 4 * 2 * 3);
  EXPECT_DOUBLE_EQ(flops({"top_k_gate", {"k=2"}, {{3, 8}}}), 3 * 8 * (2 + 5));
  // A convolution counts a multiplication and an addition for every weight at every position.
  EXPECT_DOUBLE_EQ(flops({"conv2d", {}, {{2, 3, 8, 8}, {4, 3, 1, 1}}}), 2.0 * 2 * 4 * 8 * 8 * 3);

  const auto bytes = [](const Use& use, const std::vector<TensorType>& in) {
    const auto op = make(use);
    return op.spec().bytes(op.raw(), in)->value;
  };
  const TensorType q{{2, 4, 8, 16}, DType::kFp32};
  const TensorType kv{{2, 2, 8, 16}, DType::kFp32};
  EXPECT_DOUBLE_EQ(bytes({"attention", {}, {}}, {q, kv, kv}), 4 * (1024 + 512 + 512 + 1024));
  EXPECT_DOUBLE_EQ(bytes({"embedding", {}, {}}, {{{6, 5}, DType::kInt64}, {{99, 4}, DType::kFp32}}),
                   30 * 8 + 2 * 30 * 4 * 4);
}

TEST(Density, IsSetByDispatchAndResetByCombine) {
  const auto density = [](const Use& use) {
    const auto op = make(use);
    return op.spec().density(op.raw());
  };
  EXPECT_EQ(density({"moe_dispatch", {"density=0.25"}, {}}), 0.25);
  EXPECT_EQ(density({"moe_combine", {}, {}}), 1);
  EXPECT_EQ(density({"linear", {}, {}}), std::nullopt);
}

// --- Constants ---------------------------------------------------------------------------------

TEST(Constants, Elements) {
  struct Case {
    Constant constant;
    Values out;
  };
  const Case cases[] = {
      {{.shape = {2, 2}, .value = 7}, {7, 7, 7, 7}},
      {{.shape = {2, 3}, .kind = "iota", .value = 2, .axis = 1}, {0, 2, 4, 0, 2, 4}},
      {{.shape = {2, 3}, .kind = "iota", .value = 1, .axis = 0}, {0, 0, 0, 1, 1, 1}},
      {{.shape = {2, 2, 3}, .kind = "eye", .value = 5}, {5, 0, 0, 0, 5, 0, 5, 0, 0, 0, 5, 0}},
  };
  for (const auto& c : cases) {
    Values out;
    for (std::int64_t i = 0; i < c.constant.shape.sizes.count(); ++i) {
      out.push_back(compute_constant_element(c.constant, i));
    }
    EXPECT_EQ(out, c.out) << fields_text(c.constant);
  }
}

TEST(Constants, TypesAndErrors) {
  const auto type = [](const std::vector<std::string>& attributes) -> std::string {
    const auto op = make({"constant", attributes, {}});
    try {
      const auto out = op.spec().type(op.raw(), {});
      return fmt::format("{} {}", to_text(out.shape), name(out.dtype));
    } catch (const UserError& e) {
      return e.what();
    }
  };
  EXPECT_EQ(type({"shape=[4/2, 3]", "dtype=bf16", "value=1.5"}), "[4/2, 3] bf16");
  EXPECT_EQ(type({"shape=[4]", "kind=\"ones\""}),
            "unknown kind \"ones\" of constant (expected \"fill\", \"iota\" or \"eye\")");
  EXPECT_EQ(type({"shape=[4]", "kind=\"iota\"", "axis=1"}),
            "axis 1 is out of range for a tensor of rank 1");
  EXPECT_EQ(type({"shape=[4]", "kind=\"eye\""}),
            "kind \"eye\" requires at least 2 dimensions, but has 1");
  EXPECT_EQ(type({"shape=[4]", "dtype=int64", "value=1.5"}),
            "value 1.5 is not an integer, but the type is int64");
}

TEST(Constants, WithShapeChangesOnlyTheLayout) {
  const auto constant =
      make({"constant", {"shape=[4]", "kind=\"iota\"", "value=3", "dtype=int64"}, {}});
  EXPECT_EQ(with_shape(constant, parse_parallel_shape("[4/2]").value()).attribute_text(),
            "shape=[4/2] dtype=int64 kind=\"iota\" value=3");
  const auto input = make({"input", {"shape=[4]", "dtype=int64", "below=9"}, {}});
  EXPECT_EQ(with_shape(input, parse_parallel_shape("[4]*2").value()).attribute_text(),
            "shape=[4]*2 dtype=int64 below=9");
}

}  // namespace
}  // namespace tandem::ops
