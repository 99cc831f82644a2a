// Converters of elementwise functions, and of arithmetic with constants.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "import/importer.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::import {

namespace {

using ops::make_op;

NodeId add_scale(OnnxCall& call, NodeId x, double factor) {
  return factor == 1 ? x : call.add(make_op(ops::kScale, ops::ScaleAttributes{factor}), {x});
}

// Returns whether a tensor of the file hides scores from a softmax: shown scores have 0, hidden
// ones a very small number. Windowed attention uses -100.
bool is_score_mask(const Known& k) {
  bool hides = false;
  for (std::size_t i = 0; i < k.count(); ++i) {
    if (k.real(i) != 0 && k.real(i) > -100) return false;
    hides = hides || k.real(i) != 0;
  }
  return hides;
}

bool is_zero(const Known& k) {
  return std::ranges::all_of(k.reals, [](double x) { return x == 0; }) && !k.has_integers();
}

// Returns operand `i` times `sign` if it is such a mask, else null. Reads a weight only if its last
// two sizes are equal.
KnownPtr find_score_mask(OnnxCall& call, std::size_t i, double sign) {
  const auto& sizes = call.sizes(i);
  if (sizes.size() < 2 || !to_real_dtype(call.value(i).type) || call.value(i).fill) return nullptr;
  auto k = call.known(i);
  if (!k && sizes.back() == sizes[sizes.size() - 2]) k = call.contents(i);
  if (k && sign < 0) {
    auto negative = *k;
    for (auto& x : negative.reals) x = -x;
    call.charge(static_cast<std::int64_t>(negative.count()));
    k = std::make_shared<Known>(std::move(negative));
  }
  return k && is_score_mask(*k) ? k : nullptr;
}

// Returns whether `sizes` broadcast to `to` without changing it.
bool broadcasts_to(const Sizes& sizes, const Sizes& to) {
  if (sizes.size() > to.size()) return false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto size = sizes[sizes.size() - 1 - d];
    if (size != 1 && size != to[to.size() - 1 - d]) return false;
  }
  return true;
}

// Returns the second operand, broadcast. Before opset 7 it was broadcast only if `broadcast` was
// set, from dimension `axis` on.
NodeId broadcast_second_operand(OnnxCall& call) {
  const bool legacy = call.opset() < 7 && call.integer("broadcast", 0) != 0;
  const auto rank = static_cast<std::int64_t>(call.rank(0));
  const auto own = static_cast<std::int64_t>(call.rank(1));
  const auto axis = call.integer("axis", rank - own);
  const auto b = call.tensor(1);
  if (!legacy || axis == rank - own || own == 0) return b;
  auto sizes = call.sizes(1);
  const auto behind = rank - own - static_cast<std::int64_t>(call.axis(axis, call.rank(0)));
  if (behind < 0) reject(fmt::format("axis {} is out of range", axis));
  sizes.insert(sizes.end(), static_cast<std::size_t>(behind), 1);
  return call.add_reshape(b, sizes);
}

// Converts scores with a constant mask: hidden scores get a very small number, or are multiplied by
// 0 first. A causal mask stays apart from its scores, so that the softmax can represent it.
bool mask_scores(OnnxCall& call) {
  const auto op = call.op();
  for (std::size_t i = 0; i < 2; ++i) {
    const auto other = 1 - i;
    if (op == "Mul") {
      const auto k = call.value(i).fill ? nullptr : call.known(i);
      const auto hides = [](double x) { return x == 0; };
      if (!k || !is_causal(*k, hides) || !broadcasts_to(k->sizes, call.sizes(other))) continue;
      if (!std::ranges::all_of(k->reals, [](double x) { return x == 0 || x == 1; })) continue;
      call.set_masked_scores(other, k, true);
      return true;
    }
    if (op != "Add" && (op != "Sub" || i == 0)) continue;
    const auto mask = find_score_mask(call, i, op == "Sub" ? -1 : 1);
    if (!mask || !broadcasts_to(mask->sizes, call.sizes(other))) continue;
    if (is_causal(*mask, is_hidden)) {
      call.set_masked_scores(other, mask);
    } else {
      const auto scores = call.tensor(other);
      call.set_result(ops::kAdd, {scores, call.constant(*mask, call.dtype(scores))});
    }
    return true;
  }
  return false;
}

// Converts the addition of a mask of zeros, which hides nothing. Exporters compute one from a mask
// of ones.
bool drop_zero_mask(OnnxCall& call) {
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& v = call.value(i);
    if (!call.is_known(i) || !broadcasts_to(v.sizes, call.sizes(1 - i))) continue;
    if (v.fill ? *v.fill != 0 : !is_zero(*call.known(i))) continue;
    call.alias_input(0, 1 - i);
    return true;
  }
  return false;
}

// Converts Add, Sub, Mul and Div. Constant scalars become attributes where possible.
void convert_arithmetic(OnnxCall& call) {
  const auto op = call.op();
  const auto scalar = [&](std::size_t i) -> std::optional<double> {
    const auto k = call.known_scalar(i);
    return k && std::isfinite(*k) && call.rank(i) <= call.rank(1 - i) ? k : std::nullopt;
  };
  // Before opset 7 these attributes defined the broadcast; broadcast_second_operand() reads them.
  if (call.opset() < 7) call.integer("broadcast", 0), call.integer("axis", 0);
  const bool factor = op == "Mul" || op == "Div";
  if (const auto s = scalar(1); s && factor && (op == "Mul" || *s != 0)) {
    const auto f = op == "Mul" ? *s : 1 / *s;
    if (f == 1) return call.alias_input();
    call.set_result(make_op(ops::kScale, ops::ScaleAttributes{f}), {call.tensor(0)});
    return;
  }
  if (const auto s = scalar(0); s && op == "Mul") {
    call.set_result(make_op(ops::kScale, ops::ScaleAttributes{*s}), {call.tensor(1)});
    return;
  }
  if (op == "Add" && drop_zero_mask(call)) return;
  if (mask_scores(call)) return;
  const auto& spec = op == "Add"   ? ops::kAdd
                     : op == "Sub" ? ops::kSub
                     : op == "Mul" ? ops::kMul
                                   : ops::kDiv;
  const auto a = call.tensor(0);
  call.set_result(spec, {a, broadcast_second_operand(call)});
}

// Converts Sum, Min, Max and Mean of any number of tensors.
void convert_variadic(OnnxCall& call) {
  const auto& spec = call.op() == "Min" ? ops::kMin : call.op() == "Max" ? ops::kMax : ops::kAdd;
  const auto n = call.inputs();
  if (n == 0) reject("the node has no inputs");
  auto out = call.tensor(0);
  if (n == 1) {
    call.alias_input();
    return;
  }
  const bool mean = call.op() == "Mean";
  for (std::size_t i = 1; i + (mean ? 0 : 1) < n; ++i) out = call.add(spec, {out, call.tensor(i)});
  if (mean) {
    call.set_result(make_op(ops::kScale, ops::ScaleAttributes{1 / static_cast<double>(n)}), {out});
  } else {
    call.set_result(spec, {out, call.tensor(n - 1)});
  }
}

void convert_pow(OnnxCall& call) {
  if (call.opset() < 7) call.integer("broadcast", 0), call.integer("axis", 0);
  const auto exponent = call.scalar_contents(1);
  if (!exponent) reject("the exponent must be a constant scalar");
  const auto x = call.tensor(0);
  if (*exponent == 2) {
    call.set_result(ops::kSquare, {x});
  } else if (*exponent == 0.5) {
    call.set_result(ops::kSqrt, {x});
  } else if (*exponent == -1) {
    call.set_result(ops::kReciprocal, {x});
  } else if (*exponent == 1) {
    call.alias_input();
  } else {
    call.set_result(ops::parse_op(ops::kPow, {{"exponent", fmt::format("{}", *exponent)}}), {x});
  }
}

void convert_clip(OnnxCall& call) {
  constexpr double kLargest = 3.4028234663852886e38;
  double low = call.real("min", -kLargest);
  double high = call.real("max", kLargest);
  for (std::size_t i = 1; i < 3; ++i) {
    if (!call.has(i)) continue;
    const auto bound = call.scalar_contents(i);
    if (!bound) reject("the bounds must be constant scalars");
    (i == 1 ? low : high) = std::clamp(*bound, -kLargest, kLargest);
  }
  // If the lower bound is above the upper one, the upper one applies.
  call.set_result(make_op(ops::kClip, ops::Clip{std::min(low, high), high}), {call.tensor(0)});
}

void cast_to(OnnxCall& call, std::int32_t type) {
  const auto wanted = to_real_dtype(type);
  const auto& from = call.value(0);
  if (!from.fed.empty()) {
    if (wanted) {
      const auto x = call.real_input(0, *wanted);
      Value v{.type = type, .sizes = call.sizes(0)};
      v.node = x;
      call.set_result(std::move(v));
    } else {
      Value same = from;
      same.type = type;
      call.set_result(std::move(same));
    }
    return;
  }
  if (!wanted) reject(fmt::format("a computed tensor cannot be cast to {}", type_name(type)));
  // Integers that became a node are floating point there.
  const auto own = from.node ? std::optional(call.dtype(*from.node)) : to_real_dtype(from.type);
  if (own == wanted) {
    call.alias_input();
    return;
  }
  call.set_result(make_op(ops::kCast, ops::Cast{*wanted}), {call.tensor(0)});
}

// Keeps computed tensors as they are, and makes a floating-point input from an integer one.
void convert_cast(OnnxCall& call) {
  const auto* to = call.attribute("to");
  if (to == nullptr) reject("attribute to is missing");
  // Up to opset 5 the type was a string.
  std::int32_t type = static_cast<std::int32_t>(to->i);
  for (std::int32_t t = 1; !to->s.empty() && t <= kBfloat16; ++t) {
    auto name = type_name(t);
    std::ranges::transform(name, name.begin(),
                           [](char c) { return static_cast<char>(std::toupper(c)); });
    if (name == to->s) type = t;
  }
  cast_to(call, type);
}

// Casts to the type of the second operand.
void convert_cast_like(OnnxCall& call) {
  const auto type = call.value(1).type;
  call.attribute("saturate");
  if (const auto k = call.known(0)) {
    call.set_result(cast_known(*k, type));
  } else {
    cast_to(call, type);
  }
}

// Returns false for every element: no computed number is infinite or NaN, because hidden scores are
// finite.
void convert_non_finite_test(OnnxCall& call) {
  for (const char* name : {"detect_negative", "detect_positive"}) call.attribute(name);
  call.set_result(Value{.type = kBool, .sizes = call.sizes(0), .fill = 0});
}

// Converts scale * x + bias for each channel, with which old files preprocess an image.
void convert_image_scaler(OnnxCall& call) {
  const auto scale = call.real("scale", 1);
  const auto* bias = call.attribute("bias");
  if (call.rank(0) < 2) reject("the input must have a channel dimension");
  const auto x = add_scale(call, call.tensor(0), scale);
  Known k{.type = kFloat, .sizes = Sizes(call.rank(0) - 1, 1)};
  if (bias != nullptr) k.reals = bias->floats;
  k.sizes[0] = static_cast<std::int64_t>(k.reals.size());
  if (k.sizes[0] != call.sizes(0)[1]) {
    reject(fmt::format("bias has {} values, but the input has {} channels", k.sizes[0],
                       call.sizes(0)[1]));
  }
  call.set_result(ops::kAdd, {x, call.constant(k, call.dtype(x))});
}

// Converts ArgMax and ArgMin. No gradient passes through their result.
void convert_arg_max(OnnxCall& call) {
  for (const char* name : {"axis", "keepdims", "select_last_index"}) call.attribute(name);
  call.tensor(0);
  call.mark_unusable(0,
                     "it holds the indices of an ArgMax or ArgMin, which are not differentiable");
}
void convert_identity(OnnxCall& call) { call.alias_input(); }

// Converts a dropout, which is the identity in inference. Only training_mode of opset 12 keeps it.
void convert_dropout(OnnxCall& call) {
  double p = call.real("ratio", 0.5);
  call.integer("seed", 0);
  if (call.has(1)) p = call.known_scalar(1).value_or(p);
  const bool training = call.has(2) && call.known_scalar(2).value_or(0) != 0;
  if (training && p > 0) {
    call.set_result(make_op(ops::kDropout, ops::Dropout{p, call.next_dropout()}), {call.tensor(0)});
  } else {
    convert_identity(call);
  }
  call.mark_unusable(1, "it is the mask of a Dropout");
}

// Converts Where. With a mask of the file it is a mask on scores, or a choice between tensors.
void convert_where(OnnxCall& call) {
  const auto condition = call.contents(0);
  const auto x_or_y = [&](std::size_t i) { return call.known_scalar(i); };
  if (condition) {
    const auto hides = [&](std::size_t fill, std::size_t scores, bool hidden_if) {
      const auto value = x_or_y(fill);
      if (!value || !is_hidden(*value)) return false;
      if (!broadcasts_to(condition->sizes, call.sizes(scores))) return false;
      if (!is_causal(*condition, [&](double c) { return (c != 0) == hidden_if; })) return false;
      Known mask{.type = kFloat, .sizes = condition->sizes};
      for (std::size_t i = 0; i < condition->count(); ++i) {
        mask.reals.push_back((condition->real(i) != 0) == hidden_if ? *value : 0);
      }
      call.charge(static_cast<std::int64_t>(mask.count()));
      call.set_masked_scores(scores, std::make_shared<Known>(std::move(mask)));
      return true;
    };
    if (hides(1, 2, true) || hides(2, 1, false)) return;
  }
  // The condition is the same everywhere: the result is one operand.
  if (condition && condition->count() > 0 &&
      std::ranges::adjacent_find(condition->ints, std::not_equal_to<>()) == condition->ints.end()) {
    const std::size_t taken = condition->real(0) != 0 ? 1 : 2;
    const auto all = broadcast_sizes(broadcast_sizes(call.sizes(0), call.sizes(1)), call.sizes(2));
    if (call.sizes(taken) == all) {
      call.alias_input(0, taken);
      return;
    }
  }
  // A scalar takes its dtype from the other operand and is clamped to finite values.
  const auto first = x_or_y(1) ? call.tensor(2) : call.tensor(1);
  const auto dtype = call.dtype(first);
  const auto branch = [&](std::size_t i) {
    const auto value = x_or_y(i);
    const double least = dtype == DType::kFp16 ? -65504 : -1e30;
    return value ? call.scalar(std::clamp(*value, least, -least), dtype) : call.tensor(i);
  };
  const auto a = branch(1);
  const auto b = branch(2);
  const auto shown = condition                    ? call.constant(*condition, dtype)
                     : !call.value(0).fed.empty() ? call.real_input(0, dtype)
                                                  : call.tensor(0);
  call.set_result(ops::kWhere, {shown, a, b});
}

void convert_elu(OnnxCall& call) {
  // relu(x) + alpha * (exp(min(x, 0)) - 1), times gamma for Selu
  const bool selu = call.op() == "Selu";
  const auto alpha = call.real("alpha", selu ? 1.6732632423543772848170429916717 : 1);
  const auto gamma = selu ? call.real("gamma", 1.0507009873554804934193349852946) : 1;
  const auto x = call.tensor(0);
  const auto dtype = call.dtype(x);
  const auto below = call.add(ops::kMin, {x, call.scalar(0, dtype)});
  const auto less_one = call.add(ops::kSub, {call.add(ops::kExp, {below}), call.scalar(1, dtype)});
  const auto above = add_scale(call, call.add(ops::kRelu, {x}), gamma);
  call.set_result(ops::kAdd, {above, add_scale(call, less_one, alpha * gamma)});
}

// Computes log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which stays in range.
NodeId add_softplus(OnnxCall& call, NodeId x, bool last) {
  const auto e = call.add(ops::kExp, {call.add(ops::kNeg, {call.add(ops::kAbs, {x})})});
  const auto log = call.add(ops::kLog, {call.add(ops::kAdd, {e, call.scalar(1, call.dtype(x))})});
  const auto above = call.add(ops::kRelu, {x});
  if (!last) return call.add(ops::kAdd, {above, log});
  call.set_result(ops::kAdd, {above, log});
  return x;
}

void convert_softplus(OnnxCall& call) { add_softplus(call, call.tensor(0), true); }

void convert_mish(OnnxCall& call) {
  const auto x = call.tensor(0);
  call.set_result(ops::kMul, {x, call.add(ops::kTanh, {add_softplus(call, x, false)})});
}

void convert_softsign(OnnxCall& call) {
  const auto x = call.tensor(0);
  const auto one = call.scalar(1, call.dtype(x));
  call.set_result(ops::kDiv, {x, call.add(ops::kAdd, {call.add(ops::kAbs, {x}), one})});
}

void convert_leaky_relu(OnnxCall& call) {
  call.set_result(make_op(ops::kLeakyRelu, ops::Slope{call.real("alpha", 0.01)}), {call.tensor(0)});
}

void convert_hard_sigmoid(OnnxCall& call) {
  call.set_result(
      ops::parse_op(ops::kHardSigmoid, {{"slope", fmt::format("{}", call.real("alpha", 0.2))},
                                        {"shift", fmt::format("{}", call.real("beta", 0.5))}}),
      {call.tensor(0)});
}

void convert_prelu(OnnxCall& call) {
  const auto x = call.tensor(0);
  auto slope = call.weight(1);
  const auto sizes = call.sizes(1);
  const auto rank = call.rank(0);
  // Before opset 7 a slope vector has one value for each channel.
  if (call.opset() < 7 && sizes.size() == 1 && sizes[0] != 1 && rank > 2) {
    Sizes wide(rank - 1, 1);
    wide[0] = sizes[0];
    slope = call.add_reshape(slope, wide);
  }
  call.set_result(ops::kPrelu, {x, slope});
}

void convert_gelu(OnnxCall& call) {
  const bool tanh = call.op() == "FastGelu" || call.text("approximate", "none") == "tanh";
  auto x = call.tensor(0);
  if (call.has(1)) x = call.add(ops::kAdd, {x, call.weight(1)});
  call.set_result(tanh ? ops::kGeluTanh : ops::kGelu, {x});
}

}  // namespace

ConverterList elementwise_converters() {
  return {
      {"Add", convert_arithmetic},
      {"ArgMax", convert_arg_max},
      {"ArgMin", convert_arg_max},
      {"BiasGelu", convert_gelu},
      {"Cast", convert_cast},
      {"CastLike", convert_cast_like},
      {"Clip", convert_clip},
      {"Div", convert_arithmetic},
      {"Dropout", convert_dropout},
      {"Elu", convert_elu},
      {"FastGelu", convert_gelu},
      {"Gelu", convert_gelu},
      {"HardSigmoid", convert_hard_sigmoid},
      {"Identity", convert_identity},
      {"ImageScaler", convert_image_scaler},
      {"IsInf", convert_non_finite_test},
      {"IsNaN", convert_non_finite_test},
      {"LeakyRelu", convert_leaky_relu},
      {"Max", convert_variadic},
      {"Mean", convert_variadic},
      {"Min", convert_variadic},
      {"Mish", convert_mish},
      {"Mul", convert_arithmetic},
      {"PRelu", convert_prelu},
      {"Pow", convert_pow},
      {"Selu", convert_elu},
      {"Softplus", convert_softplus},
      {"Softsign", convert_softsign},
      {"Sub", convert_arithmetic},
      {"Sum", convert_variadic},
      {"Where", convert_where},
  };
}

}  // namespace tandem::import
