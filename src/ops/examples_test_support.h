// Examples of every compute operator, small enough to run with every legal partitioning. The
// property tests of meaning, signature and sharding use them. Sizes have small divisors, so that
// factors can be partitioned, and differ within an example if possible.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "ops/registry.h"
#include "ops/signature.h"
#include "term/evaluate.h"
#include "term/random_values_test_support.h"

namespace tandem::ops {

struct Example {
  std::string op;
  AttributeList attributes = {};
  std::vector<Shape> inputs = {};
  std::int64_t below = 0;  // exclusive upper bound of the index operands
  bool sparse = false;     // some real operands are zero in the field: closed gates
  bool positive = false;   // real operands are in [0.5, 1.5), for logarithms, roots and divisors
};

inline std::vector<Example> examples() {
  const auto text = [](const std::string& s) { return "\"" + s + "\""; };
  return {
      {"abs", {}, {{2, 3}}},
      {"add", {}, {{2, 3}, {2, 3}}},
      {"add", {}, {{2, 3, 4}, {3, 1}}},
      {"append", {{"axis", "1"}}, {{2, 4, 3}, {2, 2, 3}}},
      {"attention", {{"scale", "0.5"}}, {{2, 6, 2, 2}, {2, 2, 3, 2}, {2, 2, 3, 2}}},
      {"attention", {{"causal", "true"}}, {{2, 2, 4, 3}, {2, 2, 4, 3}, {2, 2, 4, 2}}},
      {"avg_pool2d",
       {{"kernel", "[3, 2]"}, {"stride", "[2, 1]"}, {"padding", "[1, 0]"}},
       {{2, 3, 6, 3}}},
      {"avg_pool2d",
       {{"kernel", "[3, 3]"}, {"padding", "[1, 1]"}, {"count_padding", "false"}},
       {{1, 2, 6, 4}}},
      {"batch_matmul", {}, {{2, 3, 4}, {2, 4, 6}}},
      {"batch_moments", {}, {{6, 2, 2, 3}}},
      {"batch_moments", {{"group", "2"}}, {{6, 2, 3}}},
      {"batch_norm", {}, {{4, 2, 3}, {2}, {2}}},
      {"batch_norm", {{"group", "2"}}, {{6, 2, 2, 2}, {2}, {2}}},
      {"batch_normalize", {{"eps", "4"}}, {{6, 2, 3}, {3, 2, 2}, {2}, {2}}},
      {"cast", {{"to", "fp64"}}, {{2, 3}}},
      {"clip", {{"min", "-0.5"}, {"max", "0.5"}}, {{2, 3}}},
      {"concat", {{"axis", "0"}}, {{2, 3}, {4, 3}}},
      {"concat", {{"axis", "1"}}, {{2, 2, 3}, {2, 4, 3}, {2, 6, 3}}},
      {"contract", {{"index", text("b s i, h d i -> b h s d")}}, {{2, 4, 6}, {2, 3, 6}}},
      {"contract", {{"index", text("a b, c -> c a")}, {"scale", "0.5"}}, {{2, 4}, {6}}},
      {"contract", {{"index", text("a b, b a ->")}}, {{4, 6}, {6, 4}}},
      {"contract",
       {{"index", text("b (kv g) s d, b kv t d -> b (kv g) s t")}},
       {{2, 6, 2, 2}, {2, 3, 4, 2}}},
      {"contract", {{"index", text("a b, b c, c -> a")}}, {{2, 3}, {3, 4}, {4}}},
      {"conv2d", {{"padding", "[1, 0]"}}, {{2, 2, 6, 4}, {3, 2, 3, 1}}},
      {"conv2d",
       {{"stride", "[2, 1]"}, {"padding", "[1, 1]"}, {"groups", "2"}, {"act", "relu"}},
       {{2, 4, 6, 3}, {6, 2, 3, 3}, {6}}},
      {"conv2d",
       {{"groups", "4"}, {"dilation", "[2, 1]"}, {"padding", "[2, 0, 2, 0]"}},
       {{1, 4, 6, 2}, {4, 1, 3, 2}}},
      {"conv2d", {{"stride", "[2, 2]"}}, {{2, 3, 4, 6}, {4, 3, 2, 2}}},
      {"cos", {}, {{2, 3}}},
      {"cross_entropy", {}, {{2, 3, 4}, {2, 3}}, 4},
      {"div", {}, {{2, 3}, {2, 3}}, 0, false, true},
      {"dropout", {{"p", "0.25"}, {"origin", "7"}}, {{4, 6}}},
      {"embedding", {}, {{2, 4}, {6, 3}}, 6},
      {"embedding_bag", {}, {{2, 4}, {6, 3}}, 6},
      {"embedding_bag", {{"mode", "mean"}}, {{2, 3, 4}, {6, 2}}, 6},
      {"embedding_bags", {}, {{2, 3, 2}, {3, 6, 2}}, 6},
      {"erf", {}, {{2, 3}}},
      {"exp", {}, {{2, 3}}},
      {"expand", {{"shape", "[2, 3, 4]"}}, {{3, 1}}},
      {"flatten", {{"axis", "1"}}, {{2, 3, 4}}},
      {"gelu", {}, {{2, 3}}},
      {"gelu_tanh", {}, {{2, 3}}},
      {"global_avg_pool", {}, {{2, 3, 4, 2}}},
      {"group_norm", {{"groups", "3"}}, {{2, 6, 2, 2}, {6}, {6}}},
      {"hard_sigmoid", {{"slope", "1"}}, {{2, 3}}},
      {"hard_swish", {}, {{2, 3}}},
      {"identity", {}, {{2, 3}}},
      {"interaction", {}, {{2, 4, 6}}},
      {"layer_norm", {}, {{2, 3, 4}, {4}, {4}}},
      {"layer_norm", {}, {{2, 4}, {4}}},
      {"leaky_relu", {{"slope", "0.25"}}, {{2, 3}}},
      {"linear", {}, {{2, 4}, {6, 4}}},
      {"linear", {}, {{2, 3, 4}, {6, 4}}},
      {"linear", {{"act", "relu"}}, {{2, 4}, {6, 4}}},
      {"linear", {}, {{2, 4}, {6, 4}, {6}}},
      {"linear", {{"act", "gelu"}}, {{2, 3, 4}, {6, 4}, {6}}},
      {"log", {}, {{2, 3}}, 0, false, true},
      {"log_softmax", {}, {{2, 3, 4}}},
      {"log_softmax", {{"axis", "0"}}, {{2, 3}}},
      {"lrn", {{"size", "3"}, {"alpha", "0.5"}, {"beta", "0.5"}}, {{2, 6, 3}}},
      {"matmul", {}, {{2, 4}, {4, 6}}},
      {"matmul", {}, {{2, 3, 4}, {2, 4, 6}}},
      {"matmul", {}, {{2, 3, 4}, {4, 6}}},
      {"max", {}, {{2, 3}, {2, 3}}},
      {"max_pool2d",
       {{"kernel", "[3, 2]"}, {"stride", "[2, 2]"}, {"padding", "[1, 0]"}},
       {{2, 3, 6, 4}}},
      {"min", {}, {{2, 3}, {3}}},
      {"moe_combine", {}, {{2, 3, 4}, {4, 2, 3, 2}}, 0, true},
      {"moe_dispatch", {{"density", "0.5"}}, {{2, 3, 4}, {2, 3, 6}}, 0, true},
      {"mse", {}, {{2, 3}, {2, 3}}},
      {"mse", {}, {{6}, {6}}},
      {"mul", {}, {{2, 3}, {2, 3}}},
      {"mul", {}, {{2, 1, 3}, {4, 1}}},
      {"neg", {}, {{2, 3}}},
      {"pad", {{"axis", "1"}, {"before", "1"}, {"after", "2"}}, {{2, 3}}},
      {"pick", {}, {{2, 3, 4}, {2, 3}}, 4},
      {"pow", {{"exponent", "3"}}, {{2, 3}}},
      {"pow", {{"exponent", "-1.5"}}, {{2, 3}}, 0, false, true},
      {"prelu", {}, {{2, 4, 3}, {4, 1}}},
      {"reciprocal", {}, {{2, 3}}, 0, false, true},
      {"reduce_max", {{"axes", "[1]"}}, {{2, 3, 4}}},
      {"reduce_mean", {{"axes", "[0, 2]"}, {"keep", "true"}}, {{2, 3, 4}}},
      {"reduce_sum", {{"axes", "[-1]"}}, {{2, 3, 4}}},
      {"reduce_sum", {}, {{2, 3}}},
      {"relu", {}, {{2, 3}}},
      {"reshape", {{"shape", "[2, 3, 4]"}}, {{6, 4}}},
      {"reshape", {{"shape", "[4, -1]"}}, {{2, 2, 3, 1}}},
      {"rms_norm", {}, {{2, 3, 4}, {4}}},
      {"rope", {}, {{2, 3, 4}}},
      {"rope", {{"first", "3"}}, {{2, 3, 4}}},
      {"row_max", {}, {{2, 3, 4}}},
      {"rsqrt", {}, {{2, 3}}, 0, false, true},
      {"scale", {{"factor", "0.5"}}, {{2, 3}}},
      {"sigmoid", {}, {{2, 3}}},
      {"silu", {}, {{2, 3}}},
      {"sin", {}, {{2, 3}}},
      {"slice", {{"axis", "1"}, {"begin", "2"}, {"size", "2"}}, {{3, 6}}},
      {"softmax", {}, {{2, 3, 4}}},
      {"softmax", {{"axis", "0"}}, {{2, 3}}},
      {"softmax", {{"causal", "true"}}, {{2, 4, 4}}},
      {"softplus", {}, {{2, 3}}},
      {"split", {{"axis", "1"}, {"parts", "3"}, {"part", "1"}}, {{2, 6}}},
      {"sqrt", {}, {{2, 3}}, 0, false, true},
      {"square", {}, {{2, 3}}},
      {"sub", {}, {{2, 3}, {2, 3}}},
      {"tanh", {}, {{2, 3}}},
      {"top_k_gate", {{"k", "2"}}, {{2, 3, 4}}},
      {"transpose", {{"perm", "[2, 0, 1]"}}, {{2, 3, 4}}},
      {"where", {}, {{2, 3}, {2, 3}, {2, 3}}},
      {"where", {}, {{4, 1}, {2, 4, 3}, {}}, 0, true},
  };
}

inline Op make(const Example& e) { return parse_op(find_op(e.op), e.attributes); }

inline std::string format_name(const Example& e) {
  std::string out = e.op + " " + make(e).attribute_text();
  for (const auto& shape : e.inputs) out += " " + to_text(shape);
  return out;
}

inline bool is_index(const Example& e, std::size_t i) {
  return ((find_op(e.op).index_inputs >> i) & 1U) != 0;
}

template <class T>
std::vector<Dense<T>> random_inputs(const Example& e, std::mt19937_64& random) {
  std::vector<Dense<T>> out;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    auto& in = out.emplace_back(e.inputs[i]);
    for (auto& v : in.data) {
      if (is_index(e, i)) {
        v = term::Numbers<T>::from_index(
            static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(e.below)));
        continue;
      }
      v = term::random_value<T>(random);
      if constexpr (std::is_same_v<T, double>) {
        if (e.positive) v = 1 + v / 2;
      } else {
        if (e.sparse && random() % 3 == 0) v = T{};
      }
    }
  }
  return out;
}

template <class T>
std::vector<term::Operand<T>> operands(const std::vector<Dense<T>>& values) {
  std::vector<term::Operand<T>> out;
  for (const auto& v : values) out.emplace_back(v);
  return out;
}

template <class T>
Dense<T> forward(const Example& e, const std::vector<Dense<T>>& inputs) {
  const auto& s = get_signature(make(e), e.inputs);
  return term::Evaluation<T>(s.meaning, make_full_ranges(s.map), operands(inputs))
      .forward(s.map.output);
}

}  // namespace tandem::ops
