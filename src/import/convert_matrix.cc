// Converters of matmuls, reductions, softmax and attention.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "import/importer.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::import {

namespace {

using ops::make_op;

void convert_matmul(OnnxCall& call) {
  auto a = call.tensor(0);
  auto b = call.factor(1);
  const auto a_sizes = call.node_sizes(a);
  const auto b_sizes = call.node_sizes(b);
  if (a_sizes.empty() || b_sizes.empty()) reject("an operand is a scalar");
  if (a_sizes.size() > 1 && b_sizes.size() > 1) {
    call.set_result(ops::kMatMul, {a, b});
    return;
  }
  // A vector is a row on the left and a column on the right. The result does not have its
  // dimension.
  if (a_sizes.size() == 1) a = call.add_reshape(a, {1, a_sizes[0]});
  if (b_sizes.size() == 1) b = call.add_reshape(b, {b_sizes[0], 1});
  const auto matmul = call.add(ops::kMatMul, {a, b});
  auto sizes = call.node_sizes(matmul);
  if (b_sizes.size() == 1) sizes.pop_back();
  if (a_sizes.size() == 1) sizes.erase(sizes.end() - (b_sizes.size() == 1 ? 1 : 2));
  call.set_result(make_op(ops::kReshape, ops::Reshape{sizes}), {matmul});
}

NodeId add_transpose(OnnxCall& call, NodeId x) {
  return call.add(make_op(ops::kTranspose, ops::Transpose{{1, 0}}), {x});
}

// Converts alpha * a * b + beta * c. It is a linear layer if b is transposed and both factors are
// 1.
void convert_gemm(OnnxCall& call) {
  const auto alpha = call.real("alpha", 1);
  const auto beta = call.real("beta", 1);
  const bool trans_b = call.integer("transB", 0) != 0;
  call.integer("broadcast", 0);
  auto a = call.tensor(0);
  const auto b = call.weight(1);
  if (call.node_sizes(a).size() != 2 || call.node_sizes(b).size() != 2) {
    reject("the operands must be matrices");
  }
  if (call.integer("transA", 0) != 0) a = add_transpose(call, a);
  const bool has_c = call.has(2) && beta != 0;
  auto c = has_c ? call.weight(2) : NodeId{};
  if (has_c && beta != 1) c = call.add(make_op(ops::kScale, ops::ScaleAttributes{beta}), {c});
  const auto columns = call.node_sizes(b)[trans_b ? 0 : 1];
  const bool bias = has_c && call.node_sizes(c) == Sizes{columns};
  if (trans_b && alpha == 1 && (bias || !has_c)) {
    bias ? call.set_result(ops::kLinear, {a, b, c}) : call.set_result(ops::kLinear, {a, b});
    return;
  }
  const auto& spec = trans_b ? ops::kLinear : ops::kMatMul;
  if (alpha == 1 && !has_c) {
    call.set_result(spec, {a, b});
    return;
  }
  auto matmul = call.add(spec, {a, b});
  const auto factor = make_op(ops::kScale, ops::ScaleAttributes{alpha});
  if (!has_c) {
    call.set_result(factor, {matmul});
    return;
  }
  if (alpha != 1) matmul = call.add(factor, {matmul});
  call.set_result(ops::kAdd, {matmul, c});
}

// Converts "bij,bjk->bik" to "b i j, b j k -> b i k". Without an arrow, the letters that occur once
// remain.
void convert_einsum(OnnxCall& call) {
  const auto equation = call.text("equation", "");
  std::map<char, int> counts;
  std::string index;
  const auto arrow = equation.find("->");
  const auto letter = [&](char c) {
    // Index text has lower-case letters only.
    return std::isupper(static_cast<unsigned char>(c)) != 0
               ? fmt::format("{}_", static_cast<char>(std::tolower(c)))
               : std::string(1, c);
  };
  for (std::size_t i = 0; i < equation.size(); ++i) {
    const char c = equation[i];
    if (i == arrow) {
      index += " -> ";
      ++i;
    } else if (c == ',') {
      index += ", ";
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      index += letter(c) + " ";
      ++counts[c];
    } else if (c != ' ') {
      reject(fmt::format("the equation \"{}\" is not supported", equation),
             "supported: letters, commas and an arrow");
    }
  }
  if (arrow == std::string::npos) {
    index += " -> ";
    for (const auto& [c, count] : counts) {
      if (count == 1) index += letter(c) + " ";
    }
  }
  std::vector<NodeId> inputs;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    inputs.push_back(i == 0 ? call.tensor(i) : call.factor(i));
  }
  call.set_result(make_op(ops::kContract, ops::Contract{index}), inputs);
}

// Converts Softmax and LogSoftmax. Up to opset 12 the tensor counts as a matrix: the dimensions
// before the axis and the rest.
void convert_softmax(OnnxCall& call) {
  const bool log = call.op() == "LogSoftmax";
  const auto op = [&](std::int64_t axis) {
    return log ? ops::parse_op(ops::kLogSoftmax, {{"axis", fmt::format("{}", axis)}})
               : make_op(ops::kSoftmax, ops::Softmax{axis, false});
  };
  const auto rank = call.rank(0);
  const bool matrix = call.opset() < 13;
  const auto axis =
      call.axis(call.integer("axis", matrix ? 1 : -1), std::max<std::size_t>(rank, 1));
  const bool last = axis + 1 == rank;
  if (const auto& v = call.value(0); v.scores && !v.times_mask && last && !log) {
    call.set_result(make_op(ops::kSoftmax, ops::Softmax{-1, true}), {*v.scores});
    return;
  }
  const auto x = call.tensor(0);
  if (last || !matrix) {
    call.set_result(op(last ? -1 : static_cast<std::int64_t>(axis)), {x});
    return;
  }
  const auto sizes = call.sizes(0);
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < axis; ++d) rows *= sizes[d];
  const auto flat = call.add(op(-1), {call.add_reshape(x, {rows, -1})});
  call.set_result(make_op(ops::kReshape, ops::Reshape{sizes}), {flat});
}

ops::Reduction read_reduction(OnnxCall& call) {
  ops::Reduction a{.axes = call.integers_or_input("axes", 1).value_or(Sizes{}),
                   .keep_dims = call.integer("keepdims", 1) != 0};
  for (auto& axis : a.axes) axis = static_cast<std::int64_t>(call.axis(axis, call.rank(0)));
  return a;
}

void convert_reduce(OnnxCall& call) {
  const auto op = call.op().substr(std::string_view("Reduce").size());
  const bool nothing = call.integer("noop_with_empty_axes", 0) != 0;
  const auto a = read_reduction(call);
  auto x = call.tensor(0);
  if (a.axes.empty() && nothing) {
    call.alias_input();
    return;
  }
  const auto sum = make_op(ops::kReduceSum, a);
  const auto maximum = make_op(ops::kReduceMax, a);
  if (op == "Sum") return call.set_result(sum, {x});
  if (op == "Max") return call.set_result(maximum, {x});
  if (op == "Mean") return call.set_result(make_op(ops::kReduceMean, a), {x});
  if (op == "Min")
    return call.set_result(ops::kNeg, {call.add(maximum, {call.add(ops::kNeg, {x})})});
  if (op == "L1") return call.set_result(sum, {call.add(ops::kAbs, {x})});
  if (op == "SumSquare") return call.set_result(sum, {call.add(ops::kSquare, {x})});
  if (op == "L2")
    return call.set_result(ops::kSqrt, {call.add(sum, {call.add(ops::kSquare, {x})})});
  if (op == "LogSum") return call.set_result(ops::kLog, {call.add(sum, {x})});
  // LogSumExp subtracts the maximum so that exp stays in range.
  const auto keep = make_op(ops::kReduceMax, ops::Reduction{.axes = a.axes, .keep_dims = true});
  const auto e = call.add(ops::kExp, {call.add(ops::kSub, {x, call.add(keep, {x})})});
  call.set_result(ops::kAdd, {call.add(ops::kLog, {call.add(sum, {e})}), call.add(maximum, {x})});
}

// Normalizes over the dimensions from `axis` on; several of them are merged.
void convert_layer_norm(OnnxCall& call) {
  const auto rank = call.rank(0);
  const auto axis = call.axis(call.integer("axis", -1), rank);
  const bool rms = call.op() != "LayerNormalization";
  const auto op =
      make_op(rms ? ops::kRmsNorm : ops::kLayerNorm, ops::Norm{call.real("epsilon", 1e-5)});
  const auto sizes = call.sizes(0);
  const bool joined = axis + 1 < rank;
  Sizes flat(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  flat.push_back(-1);
  const auto operand = [&](std::size_t i, const Sizes& to) {
    const auto x = i == 0 ? call.tensor(i) : call.weight(i);
    return joined ? call.add_reshape(x, to) : x;
  };
  std::vector<NodeId> inputs = {operand(0, flat), operand(1, {-1})};
  if (call.has(2)) inputs.push_back(operand(2, {-1}));
  if (joined) {
    call.set_result(make_op(ops::kReshape, ops::Reshape{sizes}), {call.add(op, inputs)});
  } else {
    call.set_result(op, inputs);
  }
  for (std::size_t i = 1; i < call.outputs(); ++i) {
    call.mark_unusable(i, fmt::format("it is a statistic of a {}", call.op()));
  }
}

// Normalizes the sum of two tensors, which ONNX Runtime fuses. Output 3 is the sum.
void convert_skip_norm(OnnxCall& call) {
  const bool rms = call.op() == "SkipSimplifiedLayerNormalization";
  const std::size_t bias = rms ? 3 : 4;
  const ops::Norm a{call.real("epsilon", 1e-5)};
  auto sum = call.add(ops::kAdd, {call.tensor(0), call.tensor(1)});
  if (call.has(bias)) sum = call.add(ops::kAdd, {sum, call.weight(bias)});
  std::vector<NodeId> inputs = {sum, call.weight(2)};
  if (!rms && call.has(3)) inputs.push_back(call.weight(3));
  call.set_result(make_op(rms ? ops::kRmsNorm : ops::kLayerNorm, a), inputs);
  for (std::size_t i = 1; i < 3; ++i)
    call.mark_unusable(i, "it is a statistic of a layer normalization");
  call.set_result(ops::kIdentity, {sum}, 3);
}

// Returns [b, s, heads * size] as [b, heads, s, size].
NodeId split_heads(OnnxCall& call, NodeId x, std::int64_t heads) {
  const auto s = call.node_sizes(x);
  if (s.size() == 4) return x;
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0) {
    reject(fmt::format("an operand cannot be split into {} heads", heads),
           "set q_num_heads and kv_num_heads");
  }
  x = call.add_reshape(x, {s[0], s[1], heads, s[2] / heads});
  return call.add(make_op(ops::kTranspose, ops::Transpose{{0, 2, 1, 3}}), {x});
}

// Repeats every head of keys and values for the query heads that share it.
NodeId repeat_kv_heads(OnnxCall& call, NodeId x, std::int64_t times) {
  if (times == 1) return x;
  const auto s = call.node_sizes(x);
  x = call.add_reshape(x, {s[0], s[1], 1, s[2], s[3]});
  x = call.add(make_op(ops::kExpand, ops::Reshape{{s[0], s[1], times, s[2], s[3]}}), {x});
  return call.add_reshape(x, {s[0], s[1] * times, s[2], s[3]});
}

void convert_attention(OnnxCall& call) {
  if (call.is_microsoft())
    reject("Attention of the domain com.microsoft is not supported",
           "use Attention of ONNX opset 23");
  if (call.has(4) || call.has(5)) reject("past keys and values are not supported");
  for (std::size_t i = 1; i < call.outputs(); ++i) {
    if (call.wants(i)) reject("only the first output is supported");
  }
  if (call.real("softcap", 0) != 0) reject("softcap is not supported");
  for (const char* name : {"qk_matmul_output_mode", "softmax_precision"}) call.attribute(name);
  const bool causal = call.integer("is_causal", 0) != 0;
  const auto q_heads = call.integer("q_num_heads", 0);
  const auto kv_heads = call.integer("kv_num_heads", 0);
  const bool joined = call.rank(0) == 3;
  const auto q = split_heads(call, call.tensor(0), q_heads);
  auto k = split_heads(call, call.tensor(1), kv_heads);
  auto v = split_heads(call, call.tensor(2), kv_heads);
  const auto q_sizes = call.node_sizes(q);
  const auto k_sizes = call.node_sizes(k);
  if (q_sizes[1] % k_sizes[1] != 0) {
    reject(
        fmt::format("{} query heads are not a multiple of {} key heads", q_sizes[1], k_sizes[1]));
  }
  const auto scale = call.real("scale", 1 / std::sqrt(static_cast<double>(q_sizes[3])));
  k = repeat_kv_heads(call, k, q_sizes[1] / k_sizes[1]);
  v = repeat_kv_heads(call, v, q_sizes[1] / k_sizes[1]);
  k = call.add(make_op(ops::kTranspose, ops::Transpose{{0, 1, 3, 2}}), {k});
  auto scores =
      call.add(make_op(ops::kScale, ops::ScaleAttributes{scale}), {call.add(ops::kMatMul, {q, k})});
  if (call.has(3)) {
    if (!to_real_dtype(call.value(3).type)) reject("a boolean mask is not supported");
    scores = call.add(ops::kAdd, {scores, call.tensor(3)});
  }
  const auto shown = call.add(make_op(ops::kSoftmax, ops::Softmax{-1, causal}), {scores});
  if (!joined) return call.set_result(ops::kMatMul, {shown, v});
  const auto out = call.add(make_op(ops::kTranspose, ops::Transpose{{0, 2, 1, 3}}),
                            {call.add(ops::kMatMul, {shown, v})});
  const auto s = call.node_sizes(out);
  call.set_result(make_op(ops::kReshape, ops::Reshape{{s[0], s[1], s[2] * s[3]}}), {out});
}

void convert_cross_entropy(OnnxCall& call) {
  if (call.text("reduction", "mean") != "mean") reject("only reduction mean is supported");
  if (call.has(2)) reject("class weights are not supported");
  if (call.attribute("ignore_index") != nullptr) reject("ignore_index is not supported");
  auto x = call.tensor(0);
  const auto rank = call.rank(0);
  if (rank < 2) reject("the scores must have classes in dimension 1");
  const auto classes = call.sizes(0)[1];
  if (rank > 2) {
    Sizes perm = {0};
    for (std::size_t d = 2; d < rank; ++d) perm.push_back(static_cast<std::int64_t>(d));
    perm.push_back(1);
    x = call.add(make_op(ops::kTranspose, ops::Transpose{perm}), {x});
  }
  if (call.value(1).fed.empty() || !call.value(1).moves.empty()) {
    reject("the labels must be a graph input");
  }
  call.set_result(ops::kCrossEntropy, {x, call.index(1, classes)});
  call.mark_unusable(1, "it is the log probability of a SoftmaxCrossEntropyLoss");
}

}  // namespace

ConverterList matrix_converters() {
  ConverterList out = {
      {"Attention", convert_attention},
      {"Einsum", convert_einsum},
      {"Gemm", convert_gemm},
      {"LayerNormalization", convert_layer_norm},
      {"MatMul", convert_matmul},
      {"LogSoftmax", convert_softmax},
      {"RMSNormalization", convert_layer_norm},
      {"SimplifiedLayerNormalization", convert_layer_norm},
      {"SkipLayerNormalization", convert_skip_norm},
      {"SkipSimplifiedLayerNormalization", convert_skip_norm},
      {"Softmax", convert_softmax},
      {"SoftmaxCrossEntropyLoss", convert_cross_entropy},
  };
  for (const char* name : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
                           "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare"}) {
    out.emplace_back(name, convert_reduce);
  }
  return out;
}

}  // namespace tandem::import
