// Every operator's meaning against plain loops, its gradient against finite differences, and what
// is derived from it (ops/signature.h) against numbers.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ops/registry.h"
#include "ops/signature.h"
#include "term/evaluate.h"
#include "term/random_values_test_support.h"

namespace tandem::ops {
namespace {

using term::Evaluation;
using term::Field;
using term::random_value;

// One use of an operator.
struct Example {
  std::string op;
  AttributeList attributes;
  std::vector<Shape> inputs;
};

// At least one of every compute operator; sizes are even, so that factors can be halved.
std::vector<Example> examples() {
  return {
      {"add", {}, {{2, 4}, {2, 4}}},
      {"concat", {{"axis", "0"}}, {{2, 4}, {6, 4}}},
      {"concat", {{"axis", "1"}}, {{2, 2}, {2, 4}, {2, 6}}},
      {"contract", {{"index", "\"b s i, h d i -> b h s d\""}}, {{2, 4, 6}, {2, 4, 6}}},
      {"contract", {{"index", "\"a b, c -> c a\""}, {"scale", "0.5"}}, {{2, 4}, {6}}},
      {"embedding_bag", {}, {{2, 4}, {6, 4}}},
      {"layer_norm", {}, {{2, 4}, {4}, {4}}},
      {"linear", {}, {{2, 4}, {6, 4}}},
      {"linear", {{"act", "relu"}}, {{2, 4}, {6, 4}}},
      {"linear", {}, {{2, 2, 4}, {6, 4}, {6}}},
      {"linear", {{"act", "relu"}}, {{2, 4}, {6, 4}, {6}}},
      {"matmul", {}, {{2, 4}, {4, 6}}},
      {"matmul", {}, {{2, 2, 4}, {2, 4, 6}}},
      {"mse", {}, {{2, 4}, {2, 4}}},
      {"relu", {}, {{2, 4}}},
      {"softmax", {}, {{2, 4}}},
  };
}

Op make(const Example& e) { return parse_op(find_op(e.op), e.attributes); }

std::string name_of(const Example& e) {
  std::string out = e.op + " " + make(e).attribute_text();
  for (const auto& shape : e.inputs) out += " " + to_text(shape);
  return out;
}

bool is_index(const Example& e, std::size_t i) {
  return ((find_op(e.op).index_inputs >> i) & 1U) != 0;
}

// Random operands; indices are in the first dimension of the last operand.
template <class T>
std::vector<Dense<T>> random_inputs(const Example& e, std::mt19937_64& random) {
  std::vector<Dense<T>> out;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    auto& in = out.emplace_back(e.inputs[i]);
    for (auto& v : in.data) {
      v = is_index(e, i) ? term::Numbers<T>::from_index(static_cast<std::int64_t>(
                               random() % static_cast<std::uint64_t>(e.inputs.back()[0])))
                         : random_value<T>(random);
    }
  }
  return out;
}

template <class T>
std::vector<const Dense<T>*> pointers(const std::vector<Dense<T>>& values) {
  std::vector<const Dense<T>*> out;
  for (const auto& v : values) out.push_back(&v);
  return out;
}

template <class T>
Dense<T> forward(const Example& e, const std::vector<Dense<T>>& inputs) {
  const auto s = signature(make(e), e.inputs);
  return Evaluation<T>(s.meaning, whole_ranges(s.map), pointers(inputs)).forward(s.map.output);
}

TEST(Meaning, ExamplesCoverEveryComputeOperator) {
  std::set<std::string> covered;
  for (const auto& e : examples()) covered.insert(e.op);
  for (const auto* spec : all_ops()) {
    EXPECT_EQ(covered.contains(spec->name), spec->role == Role::kCompute) << spec->name;
  }
}

// --- Forward, against loops
// -----------------------------------------------------------------------

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
      {{"embedding_bag", {}, {{3, 4}, {5, 2}}}, loops_embedding_bag},
      {{"embedding_bag", {}, {{2, 3, 4}, {5, 2}}}, loops_embedding_bag},
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
    ASSERT_EQ(out.shape, expected.shape) << name_of(c.example);
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      EXPECT_NEAR(out.data[i], expected.data[i], 1e-12) << name_of(c.example) << " at " << i;
    }
  }
}

// --- Backward, against central differences
// --------------------------------------------------------

TEST(Meaning, BackwardEqualsFiniteDifferences) {
  std::mt19937_64 random(2);
  for (const auto& e : examples()) {
    SCOPED_TRACE(name_of(e));
    auto in = random_inputs<double>(e, random);
    const auto s = signature(make(e), e.inputs);
    Dense<double> weights(term::shape_of(s.map.output));  // the scalar is weights . output
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
    Evaluation<double>(s.meaning, whole_ranges(s.map), pointers(in))
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
        EXPECT_NEAR(grads[i].data[j], (above - below) / (2 * kStep), 1e-7)
            << "input " << i << " at " << j;
      }
    }
  }
}

// --- What is derived from it
// ----------------------------------------------------------------------

// "d0:parallel k:reducing c:whole | {0} {0,1}"
std::string describe(const Signature& s) {
  std::string out;
  constexpr const char* kUse[] = {"whole", "parallel", "reducing"};
  for (FactorId f = 0; f < s.use.size(); ++f) {
    out += fmt::format("{}:{} ", s.map.factors[f].name, kUse[static_cast<std::size_t>(s.use[f])]);
  }
  out += "|";
  for (const auto set : s.partial_inputs) {
    std::vector<std::string> inputs;
    for (int i = 0; i < 32; ++i) {
      if (((set >> i) & 1U) != 0) inputs.push_back(fmt::format("{}", i));
    }
    out += " {" + join(inputs, ",") + "}";
  }
  return out;
}

TEST(Signature, FactorUsesAndPartialInputs) {
  struct Case {
    Example example;
    std::string_view signature;
  };
  const AttributeList relu = {{"act", "relu"}};
  const Case cases[] = {
      {{"add", {}, {{2, 4}, {2, 4}}}, "d0:parallel d1:parallel | {0,1}"},
      {{"concat", {{"axis", "1"}}, {{2, 4}, {2, 6}}},
       "a0:parallel c0:whole c1:whole c:whole | {0,1}"},
      {{"concat", {}, {{2, 4}}}, "c0:whole a1:parallel c:whole | {0}"},
      {{"contract", {{"index", "\"b s i, h d i -> b h s d\""}}, {{2, 4, 6}, {2, 4, 6}}},
       "b:parallel s:parallel i:reducing h:parallel d:parallel | {0} {1}"},
      {{"contract", {{"index", "\"a, b -> a b\""}}, {{2}, {4}}}, "a:parallel b:parallel | {0} {1}"},
      {{"contract", {{"index", "\"a, a -> \""}, {"scale", "0.5"}}, {{2}, {2}}},
       "a:reducing | {0} {1}"},
      {{"embedding_bag", {}, {{2, 4}, {6, 4}}},
       "d0:parallel l:reducing v:reducing d:parallel | {1}"},
      {{"layer_norm", {}, {{2, 4}, {4}, {4}}}, "d0:parallel h:whole | {1,2}"},
      {{"linear", {}, {{2, 4}, {6, 4}}}, "d0:parallel k:reducing n:parallel | {0} {1}"},
      {{"linear", relu, {{2, 4}, {6, 4}}}, "d0:parallel k:whole n:parallel |"},
      {{"linear", {}, {{2, 4}, {6, 4}, {6}}}, "d0:parallel k:whole n:parallel | {0,2} {1,2}"},
      {{"matmul", {}, {{2, 2, 4}, {2, 4, 6}}},
       "d0:parallel m:parallel k:reducing n:parallel | {0} {1}"},
      {{"mse", {}, {{2, 4}, {2, 4}}}, "d0:reducing c:reducing |"},
      {{"relu", {}, {{2}}}, "d0:parallel |"},
      {{"softmax", {}, {{2, 4}}}, "d0:parallel c:whole |"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(describe(signature(make(c.example), c.example.inputs)), c.signature)
        << name_of(c.example);
  }
}

// Is the operator linear, jointly, in these inputs? By trying random values.
bool seems_linear(const Example& e, InputMask set, std::mt19937_64& random) {
  const auto a = random_inputs<Field>(e, random);
  auto b = a;
  auto sum = a;
  auto zero = a;
  const auto other = random_inputs<Field>(e, random);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (((set >> i) & 1U) == 0) continue;
    b[i] = other[i];
    for (std::size_t j = 0; j < a[i].data.size(); ++j) {
      sum[i].data[j] = a[i].data[j] + b[i].data[j];
      zero[i].data[j] = Field(0);
    }
  }
  auto expected = forward(e, a);
  const auto of_b = forward(e, b);
  for (std::size_t j = 0; j < expected.data.size(); ++j) expected.data[j] += of_b.data[j];
  return forward(e, sum) == expected && forward(e, zero) == Dense<Field>(expected.shape);
}

TEST(Signature, LinearityClaimsHoldInTheField) {
  std::mt19937_64 random(3);
  for (const auto& e : examples()) {
    const auto s = signature(make(e), e.inputs);
    InputMask covered = 0;
    for (const auto set : s.partial_inputs) {
      covered |= set;
      for (int trial = 0; trial < 3; ++trial) {
        EXPECT_TRUE(seems_linear(e, set, random)) << name_of(e) << " in inputs " << set;
      }
      // Minimal: no smaller set will do.
      for (InputMask part = (set - 1) & set; part != 0; part = (part - 1) & set) {
        EXPECT_FALSE(seems_linear(e, part, random)) << name_of(e) << " in inputs " << part;
      }
    }
    for (std::size_t i = 0; i < e.inputs.size(); ++i) {
      const InputMask one = InputMask{1} << i;
      if ((covered & one) != 0) continue;
      EXPECT_FALSE(seems_linear(e, one, random)) << name_of(e) << " in input " << i;
    }
  }
}

// What backward_reads leaves out changes no gradient; what it names changes some.
TEST(Signature, BackwardReadsExactlyWhatGradientsMention) {
  std::mt19937_64 random(6);
  for (const auto& e : examples()) {
    const auto s = signature(make(e), e.inputs);
    const auto in = random_inputs<Field>(e, random);
    Dense<Field> seed(term::shape_of(s.map.output));
    for (auto& v : seed.data) v = Field(random());
    const auto gradients = [&](const std::vector<Dense<Field>>& at) {
      std::vector<Dense<Field>> grads;
      for (const auto& shape : e.inputs) grads.emplace_back(shape);
      std::vector<Dense<Field>*> wanted;
      for (auto& g : grads) wanted.push_back(&g);
      Evaluation<Field>(s.meaning, whole_ranges(s.map), pointers(at))
          .backward(s.map.output, seed, wanted);
      return grads;
    };
    for (std::size_t i = 0; i < in.size(); ++i) {
      auto changed = in;
      changed[i] = random_inputs<Field>(e, random)[i];
      EXPECT_EQ(gradients(changed) != gradients(in), ((s.backward_reads >> i) & 1U) != 0)
          << name_of(e) << " input " << i;
    }
  }
}

// The half of `value` along `dim`.
Dense<Field> half(const Dense<Field>& value, std::size_t dim, std::int64_t which) {
  Shape shape = value.shape;
  shape[dim] /= 2;
  Dense<Field> out(shape);
  std::size_t n = 0;
  for_each_index(shape, [&](Shape at) {
    at[dim] += which * shape[dim];
    out.data[n++] = value.data[static_cast<std::size_t>(flat_index(value.shape, at))];
  });
  return out;
}

// Do two devices, each with half of factor `f`, compute the parts or summands of the whole?
bool splits(const Example& e, const Signature& s, FactorId f, const std::vector<Dense<Field>>& in) {
  const auto whole = forward(e, in);
  const auto size = s.map.factors[f].size;
  const int dim = s.map.output_dim(f);
  Dense<Field> sum(whole.shape);
  for (std::int64_t which = 0; which < 2; ++which) {
    auto parts = in;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const int d = s.map.input_dim(i, f);
      if (d >= 0) parts[i] = half(in[i], static_cast<std::size_t>(d), which);
    }
    auto ranges = whole_ranges(s.map);
    ranges[f] = {size / 2, size, which * (size / 2)};
    const auto out = Evaluation<Field>(s.meaning, ranges, pointers(parts)).forward(s.map.output);
    if (dim >= 0 && out != half(whole, static_cast<std::size_t>(dim), which)) return false;
    if (dim < 0) {
      for (std::size_t j = 0; j < sum.data.size(); ++j) sum.data[j] += out.data[j];
    }
  }
  return dim >= 0 || sum == whole;
}

// Both ways: what may be split gives the right values, and what is called whole (by '!' or by
// derivation) could not be split.
TEST(Signature, AFactorIsWholeExactlyWhereSplittingItIsWrong) {
  std::mt19937_64 random(4);
  for (const auto& e : examples()) {
    if (e.op == "concat") continue;  // its axis is whole because sizes are tied, tested below
    const auto s = signature(make(e), e.inputs);
    const auto in = random_inputs<Field>(e, random);
    for (FactorId f = 0; f < s.use.size(); ++f) {
      EXPECT_EQ(splits(e, s, f, in), s.use[f] != FactorUse::kWhole)
          << name_of(e) << " factor " << s.map.factors[f].name;
    }
  }
}

TEST(Signature, EveryFactorOfConcatsAxisIsWhole) {
  const Example e = {"concat", {{"axis", "1"}}, {{2, 2}, {2, 4}}};
  const auto s = signature(make(e), e.inputs);
  for (const auto* name : {"c0", "c1", "c"})
    EXPECT_EQ(s.use[s.map.find(name)], FactorUse::kWhole) << name;
  std::mt19937_64 random(5);
  EXPECT_TRUE(
      splits(e, s, static_cast<FactorId>(s.map.find("a0")), random_inputs<Field>(e, random)));
}

// --- Errors
// ---------------------------------------------------------------------------------------

TEST(Operators, ErrorsAreWordedForTheUser) {
  struct Case {
    Example example;
    std::string_view what;
  };
  const Case cases[] = {
      {{"liner", {}, {}}, "there is no operator 'liner' (did you mean 'linear'?)"},
      {{"quantum_flux", {}, {}}, "there is no operator 'quantum_flux' (`tandem ops` lists them)"},
      {{"linear", {{"axis", "1"}}, {}}, "linear has no attribute 'axis' (it has: act)"},
      {{"relu", {{"act", "relu"}}, {}}, "relu has no attribute 'act' (it has none)"},
      {{"linear", {{"act", "gelu"}}, {}}, "linear: attribute 'act' cannot be 'gelu'"},
      {{"concat", {{"axis", "x"}}, {}}, "concat: attribute 'axis' cannot be 'x'"},
      {{"concat", {}, {}}, "concat takes at least one input"},
      {{"concat", {{"axis", "2"}}, {{2, 3}}}, "axis 2 is not in a tensor of rank 2"},
      {{"concat", {{"axis", "-1"}}, {{2, 3}}}, "axis -1 is not in a tensor of rank 2"},
      {{"concat", {}, {{2, 3}, {2}}}, "input 1 has 1 dimensions and needs 2"},
      {{"concat", {}, {{2, 3}, {2, 4}}}, "index 'a1' is 3 in input 0 and 4 in input 1"},
      {{"matmul", {}, {{8, 64}, {63, 8}}}, "index 'k' is 64 in input 0 and 63 in input 1"},
      {{"linear", {}, {{2, 4}, {6, 4}, {5}}}, "index 'n' is 6 in input 1 and 5 in input 2"},
      {{"add", {}, {{2}}}, "takes 2 inputs and has 1"},
      {{"contract", {}, {{2}, {2}}},
       "contract: index \"\": has no '->' (write it like index=\"b s i, h d i -> b h s d\")"},
      {{"contract", {{"index", "\"a -> a\""}}, {{2}}},
       "contract: index \"a -> a\": needs two inputs (write it like index=\"b s i, h d i -> b h s "
       "d\")"},
      {{"contract", {{"index", "\"a a, b -> b\""}}, {{2, 2}, {2}}},
       "contract: index \"a a, b -> b\": 'a' stands twice in one tensor "
       "(write it like index=\"b s i, h d i -> b h s d\")"},
      {{"contract", {{"index", "\"a, b -> c\""}}, {{2}, {2}}},
       "contract: index \"a, b -> c\": 'c' is in no input (write it like index=\"b s i, h d i -> b "
       "h s d\")"},
      {{"contract", {{"index", "\"... a, !b -> b\""}}, {{2}, {2}}},
       "contract: index \"... a, !b -> b\": '...' is not a factor's name "
       "(write it like index=\"b s i, h d i -> b h s d\")"},
  };
  for (const auto& c : cases) {
    try {
      signature(make(c.example), c.example.inputs);
      ADD_FAILURE() << c.example.op << " was accepted";
    } catch (const UserError& e) {
      EXPECT_EQ(std::string_view(e.what()), c.what);
    }
  }
}

TEST(Operators, AnOuterProductOfTooManyDimensionsIsTheUsersError) {
  const Example e = {"contract",
                     {{"index", "\"a b c d e, f g h i -> a b c d e f g h i\""}},
                     {{1, 1, 1, 1, 1}, {1, 1, 1, 1}}};
  try {
    signature(make(e), e.inputs);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.message, "the result has 9 dimensions and can have 8");
  }
}

TEST(Operators, EqualAttributesAreOneOp) {
  const auto& linear = find_op("linear");
  EXPECT_EQ(parse_op(linear, {}), parse_op(linear, {{"act", "none"}}));
  EXPECT_NE(parse_op(linear, {}), parse_op(linear, {{"act", "relu"}}));
  EXPECT_EQ(parse_op(linear, {{"act", "relu"}}).attribute_text(), "act=relu");
  EXPECT_NE(parse_op(linear, {}).hash(), parse_op(linear, {{"act", "relu"}}).hash());
}

TEST(Operators, AreListedInAlphabeticalOrder) {
  std::vector<std::string> names;
  for (const auto* spec : all_ops()) names.push_back(spec->name);
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

}  // namespace
}  // namespace tandem::ops
