// Operators' meanings against plain loops, and their gradients against finite differences.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ops/examples_test_support.h"

namespace tandem::ops {
namespace {

using term::Evaluation;
using term::random_value;

// --- Forward, against loops ---------------------------------------------------------------------

using Values = std::vector<Dense<double>>;
using Loops = Dense<double> (*)(const Values& in);

Dense<double> loops_linear(const Values& in, bool relu) {
  const auto n = in[1].shape[0];
  const auto k = in[1].shape[1];
  const auto rows = in[0].shape.count() / k;
  Shape shape = in[0].shape;
  shape[shape.rank() - 1] = n;
  Dense<double> out(shape);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < n; ++j) {
      double total = in.size() == 3 ? in[2].data[j] : 0;
      for (std::int64_t i = 0; i < k; ++i) total += in[0].data[r * k + i] * in[1].data[j * k + i];
      out.data[r * n + j] = relu ? std::max(total, 0.0) : total;
    }
  }
  return out;
}

Dense<double> loops_matmul(const Values& in) {
  const auto rank = in[0].shape.rank();
  const auto m = in[0].shape[rank - 2];
  const auto k = in[0].shape[rank - 1];
  const auto n = in[1].shape[rank - 1];
  Shape shape = in[0].shape;
  shape[rank - 1] = n;
  Dense<double> out(shape);
  for (std::int64_t b = 0; b < shape.count() / (m * n); ++b) {
    for (std::int64_t r = 0; r < m; ++r) {
      for (std::int64_t c = 0; c < n; ++c) {
        for (std::int64_t i = 0; i < k; ++i) {
          out.data[(b * m + r) * n + c] +=
              in[0].data[(b * m + r) * k + i] * in[1].data[(b * k + i) * n + c];
        }
      }
    }
  }
  return out;
}

Dense<double> loops_project(const Values& in) {  // b s i, h d i -> b h s d
  const Shape x = in[0].shape;
  const Shape w = in[1].shape;
  Dense<double> out(Shape{x[0], w[0], x[1], w[1]});
  std::size_t at = 0;
  for (std::int64_t b = 0; b < x[0]; ++b) {
    for (std::int64_t h = 0; h < w[0]; ++h) {
      for (std::int64_t s = 0; s < x[1]; ++s) {
        for (std::int64_t d = 0; d < w[1]; ++d, ++at) {
          for (std::int64_t i = 0; i < x[2]; ++i) {
            out.data[at] +=
                in[0].data[(b * x[1] + s) * x[2] + i] * in[1].data[(h * w[1] + d) * x[2] + i];
          }
        }
      }
    }
  }
  return out;
}

Dense<double> loops_outer_half(const Values& in) {  // 0.5 * (a b, c -> c a)
  const auto a = in[0].shape[0];
  const auto b = in[0].shape[1];
  const auto c = in[1].shape[0];
  Dense<double> out(Shape{c, a});
  for (std::int64_t i = 0; i < c; ++i) {
    for (std::int64_t j = 0; j < a; ++j) {
      for (std::int64_t l = 0; l < b; ++l)
        out.data[i * a + j] += 0.5 * in[0].data[j * b + l] * in[1].data[i];
    }
  }
  return out;
}

Dense<double> loops_softmax(const Values& in) {
  const auto c = in[0].shape[in[0].shape.rank() - 1];
  Dense<double> out(in[0].shape);
  for (std::int64_t r = 0; r < in[0].shape.count() / c; ++r) {
    double total = 0;
    for (std::int64_t i = 0; i < c; ++i) total += std::exp(in[0].data[r * c + i]);
    for (std::int64_t i = 0; i < c; ++i)
      out.data[r * c + i] = std::exp(in[0].data[r * c + i]) / total;
  }
  return out;
}

Dense<double> loops_layer_norm(const Values& in) {
  const auto h = in[1].shape[0];
  Dense<double> out(in[0].shape);
  for (std::int64_t r = 0; r < in[0].shape.count() / h; ++r) {
    double mean = 0;
    double variance = 0;
    for (std::int64_t i = 0; i < h; ++i) mean += in[0].data[r * h + i] / static_cast<double>(h);
    for (std::int64_t i = 0; i < h; ++i) {
      variance += std::pow(in[0].data[r * h + i] - mean, 2) / static_cast<double>(h);
    }
    for (std::int64_t i = 0; i < h; ++i) {
      out.data[r * h + i] =
          (in[0].data[r * h + i] - mean) / std::sqrt(variance + 1e-5) * in[1].data[i] +
          in[2].data[i];
    }
  }
  return out;
}

Dense<double> loops_concat(const Values& in, std::size_t axis) {
  Shape shape = in[0].shape;
  shape[axis] = 0;
  for (const auto& x : in) shape[axis] += x.shape[axis];
  Dense<double> out(shape);
  std::int64_t start = 0;
  for (const auto& x : in) {
    for (std::int64_t r = 0; r < x.shape[0]; ++r) {
      for (std::int64_t c = 0; c < x.shape[1]; ++c) {
        const auto row = axis == 0 ? r + start : r;
        const auto column = axis == 1 ? c + start : c;
        out.data[row * shape[1] + column] = x.data[r * x.shape[1] + c];
      }
    }
    start += x.shape[axis];
  }
  return out;
}

Dense<double> loops_embedding_bag(const Values& in) {
  const auto l = in[0].shape[in[0].shape.rank() - 1];
  const auto d = in[1].shape[1];
  Shape shape = in[0].shape;
  shape[shape.rank() - 1] = d;
  Dense<double> out(shape);
  for (std::int64_t i = 0; i < in[0].shape.count(); ++i) {
    const auto row = static_cast<std::int64_t>(in[0].data[i]);
    for (std::int64_t j = 0; j < d; ++j) out.data[i / l * d + j] += in[1].data[row * d + j];
  }
  return out;
}

Dense<double> loops_mse(const Values& in) {
  double total = 0;
  for (std::size_t i = 0; i < in[0].data.size(); ++i)
    total += std::pow(in[0].data[i] - in[1].data[i], 2);
  return {Shape{}, {total / static_cast<double>(in[0].data.size())}};
}

Dense<double> loops_add(const Values& in) {
  Dense<double> out = in[0];
  for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] += in[1].data[i];
  return out;
}

Dense<double> loops_relu(const Values& in) {
  Dense<double> out = in[0];
  for (auto& v : out.data) v = std::max(v, 0.0);
  return out;
}

TEST(Meaning, ForwardEqualsLoops) {
  struct Case {
    Example example;
    Loops loops;
  };
  const Loops linear = [](const Values& in) { return loops_linear(in, false); };
  const Loops linear_relu = [](const Values& in) { return loops_linear(in, true); };
  const Loops concat_0 = [](const Values& in) { return loops_concat(in, 0); };
  const Loops concat_1 = [](const Values& in) { return loops_concat(in, 1); };
  const AttributeList relu = {{"act", "relu"}};
  const Case cases[] = {
      {{"add", {}, {{2, 3}, {2, 3}}}, loops_add},
      {{"concat", {{"axis", "0"}}, {{2, 3}, {4, 3}}}, concat_0},
      {{"concat", {{"axis", "0"}}, {{1, 3}, {4, 3}, {2, 3}}}, concat_0},
      {{"concat", {{"axis", "1"}}, {{2, 3}, {2, 1}, {2, 4}}}, concat_1},
      {{"concat", {{"axis", "1"}}, {{2, 3}}}, concat_1},
      {{"contract", {{"index", "\"b s i, h d i -> b h s d\""}}, {{2, 3, 4}, {5, 6, 4}}},
       loops_project},
      {{"contract", {{"index", "\"a b, c -> c a\""}, {"scale", "0.5"}}, {{2, 3}, {4}}},
       loops_outer_half},
      {{"embedding_bag", {}, {{3, 4}, {5, 2}}, 5}, loops_embedding_bag},
      {{"embedding_bag", {}, {{2, 3, 4}, {5, 2}}, 5}, loops_embedding_bag},
      {{"layer_norm", {}, {{2, 3, 5}, {5}, {5}}}, loops_layer_norm},
      {{"linear", {}, {{2, 3}, {4, 3}}}, linear},
      {{"linear", {}, {{3}, {4, 3}}}, linear},
      {{"linear", relu, {{2, 5, 3}, {4, 3}}}, linear_relu},
      {{"linear", {}, {{2, 3}, {4, 3}, {4}}}, linear},
      {{"linear", relu, {{2, 3}, {4, 3}, {4}}}, linear_relu},
      {{"matmul", {}, {{2, 3}, {3, 4}}}, loops_matmul},
      {{"matmul", {}, {{5, 2, 3}, {5, 3, 4}}}, loops_matmul},
      {{"mse", {}, {{2, 3}, {2, 3}}}, loops_mse},
      {{"relu", {}, {{2, 3}}}, loops_relu},
      {{"softmax", {}, {{2, 3, 4}}}, loops_softmax},
  };
  std::mt19937_64 random(1);
  for (const auto& c : cases) {
    const auto in = random_inputs<double>(c.example, random);
    const auto out = forward(c.example, in);
    const auto expected = c.loops(in);
    ASSERT_EQ(out.shape, expected.shape) << format_name(c.example);
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      EXPECT_NEAR(out.data[i], expected.data[i], 1e-12) << format_name(c.example) << " at " << i;
    }
  }
}

// --- Backward, against central differences ------------------------------------------------------

TEST(Meaning, BackwardEqualsFiniteDifferences) {
  std::mt19937_64 random(2);
  for (const auto& e : examples()) {
    if (e.op == "row_max") continue;  // by definition a constant in the backward pass
    SCOPED_TRACE(format_name(e));
    auto in = random_inputs<double>(e, random);
    const auto s = get_signature(make(e), e.inputs);
    // The scalar is the dot product of weights and output.
    Dense<double> weights(term::to_shape(s.map.output));
    for (auto& w : weights.data) w = random_value<double>(random);
    const auto scalar = [&] {
      double total = 0;
      const auto out = forward(e, in);
      for (std::size_t i = 0; i < out.data.size(); ++i) total += out.data[i] * weights.data[i];
      return total;
    };
    std::vector<Dense<double>> grads;
    for (const auto& shape : e.inputs) grads.emplace_back(shape);
    std::vector<Dense<double>*> wanted;
    for (auto& g : grads) wanted.push_back(&g);
    Evaluation<double>(s.meaning, make_full_ranges(s.map), operands(in))
        .backward(s.map.output, weights, wanted);
    constexpr double kStep = 1e-5;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (is_index(e, i)) continue;
      for (std::size_t j = 0; j < in[i].data.size(); ++j) {
        const double at = in[i].data[j];
        in[i].data[j] = at + kStep;
        const double above = scalar();
        in[i].data[j] = at - kStep;
        const double below = scalar();
        in[i].data[j] = at;
        EXPECT_NEAR(grads[i].data[j], (above - below) / (2 * kStep), 2e-7)
            << "input " << i << " at " << j;
      }
    }
  }
}

// --- Errors -------------------------------------------------------------------------------------

TEST(Operators, WordErrorsForTheUser) {
  struct Case {
    Example example;
    std::string_view what;
  };
  const Case cases[] = {
      {{"liner", {}, {}}, "unknown operator 'liner' (did you mean 'linear'?)"},
      {{"quantum_flux", {}, {}},
       "unknown operator 'quantum_flux' (`tandem ops` lists the operators)"},
      {{"linear", {{"axis", "1"}}, {}}, "linear has no attribute 'axis' (its attributes: act)"},
      {{"relu", {{"act", "relu"}}, {}}, "relu has no attribute 'act' (it has no attributes)"},
      {{"linear", {{"act", "swash"}}, {}}, "linear: attribute 'act' cannot be 'swash'"},
      {{"concat", {{"axis", "x"}}, {}}, "concat: attribute 'axis' cannot be 'x'"},
      {{"concat", {}, {}}, "concat requires at least one input"},
      {{"concat", {{"axis", "2"}}, {{2, 3}}}, "axis 2 is out of range for a tensor of rank 2"},
      {{"concat", {{"axis", "-1"}}, {{2, 3}}}, "axis -1 is out of range for a tensor of rank 2"},
      {{"concat", {}, {{2, 3}, {2}}}, "input 1 has 1 dimensions, but must have 2"},
      {{"concat", {}, {{2, 3}, {2, 4}}}, "index 'a1' is 3 in input 0 and 4 in input 1"},
      {{"matmul", {}, {{8, 64}, {63, 8}}}, "index 'k' is 64 in input 0 and 63 in input 1"},
      {{"linear", {}, {{2, 4}, {6, 4}, {5}}}, "index 'n' is 6 in input 1 and 5 in input 2"},
      {{"add", {}, {{2}}}, "takes 2 inputs, but has 1"},
      {{"contract", {}, {{2}, {2}}},
       "contract: index \"\": has no '->' (write it like index=\"b s i, h d i -> b h s d\")"},
      {{"contract", {{"index", "\"a a, b -> b\""}}, {{2, 2}, {2}}},
       "contract: index \"a a, b -> b\": 'a' appears twice in one tensor (write it like index=\"b "
       "s i, h d i -> b h s d\")"},
      {{"contract", {{"index", "\"a, b -> c\""}}, {{2}, {2}}},
       "contract: index \"a, b -> c\": 'c' is in no input (write it like index=\"b s i, h d i -> b "
       "h s d\")"},
      {{"contract", {{"index", "\"... a, !b -> b\""}}, {{2}, {2}}},
       "contract: index \"... a, !b -> b\": '...' is not a valid factor name (write it like "
       "index=\"b s i, h d i -> b h s d\")"},
  };
  for (const auto& c : cases) {
    try {
      get_signature(make(c.example), c.example.inputs);
      ADD_FAILURE() << c.example.op << " was accepted";
    } catch (const UserError& e) {
      EXPECT_EQ(std::string_view(e.what()), c.what);
    }
  }
}

TEST(Operators, RefuseAnOuterProductOfTooManyDimensions) {
  const Example e = {"contract",
                     {{"index", "\"a b c d e, f g h i -> a b c d e f g h i\""}},
                     {{1, 1, 1, 1, 1}, {1, 1, 1, 1}}};
  try {
    get_signature(make(e), e.inputs);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.message, "the result has 9 dimensions and can have 8");
  }
}

TEST(Operators, ShareOneOpForEqualAttributes) {
  const auto& linear = find_op("linear");
  EXPECT_EQ(parse_op(linear, {}), parse_op(linear, {{"act", "none"}}));
  EXPECT_NE(parse_op(linear, {}), parse_op(linear, {{"act", "relu"}}));
  EXPECT_EQ(parse_op(linear, {{"act", "relu"}}).attribute_text(), "act=relu");
  EXPECT_NE(parse_op(linear, {}).hash(), parse_op(linear, {{"act", "relu"}}).hash());
}

TEST(Operators, AreSorted) {
  std::vector<std::string> names;
  for (const auto* spec : all_ops()) names.push_back(spec->name);
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

}  // namespace
}  // namespace tandem::ops
