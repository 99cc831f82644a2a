#include "verify/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "base/text.h"
#include "graph/graph.h"
#include "graph/virtual_devices.h"
#include "ops/attributes.h"
#include "ops/registry.h"
#include "ops/signature.h"
#include "ops/sources.h"
#include "term/evaluate.h"
#include "verify/kernel_cache.h"

namespace tandem::verify {

namespace {

using term::Field;

template <class T>
Dense<T> make_constant_values(const ops::Op& op, const Shape& sizes) {
  const auto& attributes = op.get<ops::Constant>();
  Dense<T> out(sizes);
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    out.data[i] = term::Numbers<T>::from(
        ops::compute_constant_element(attributes, static_cast<std::int64_t>(i)));
  }
  return out;
}

template <class T>
Dense<T> add_tensors(const std::vector<const Dense<T>*>& inputs) {
  Dense<T> out = *inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    for (std::size_t e = 0; e < out.data.size(); ++e) out.data[e] += inputs[i]->data[e];
  }
  return out;
}

template <class T>
Dense<T> evaluate_meaning(const ops::Signature& s, const std::vector<const Dense<T>*>& inputs) {
  std::vector<term::Operand<T>> operands;
  operands.reserve(inputs.size());
  for (const auto* input : inputs) operands.emplace_back(*input);
  return term::Evaluation<T>(s.meaning, term::make_full_ranges(s.map), std::move(operands))
      .forward(s.map.output);
}

// Compiles operators that recur often. The compiler belongs to the generator, whose rules are
// judged here. Each kernel is therefore compared with the slow evaluation before it is trusted.
Dense<Field> evaluate_in_field(const ops::Signature& s, const Shape& sizes,
                               const std::vector<const Dense<Field>*>& inputs) {
  auto& kernels = KnownKernels::get_thread_cache();
  auto& known = kernels.find_or_compile(s);
  if (known.kernel == nullptr) return evaluate_meaning(s, inputs);
  std::vector<const Field*> values;
  values.reserve(inputs.size());
  for (const auto* input : inputs) values.push_back(input->data.data());
  Dense<Field> out(sizes);
  CHECK(out.data.size() == known.kernel->result_size());
  known.kernel->run(values, out.data.data(), kernels.scratch);
  if (!known.is_tried) CHECK(out.data == evaluate_meaning(s, inputs).data);
  known.is_tried = true;
  return out;
}

template <class T>
Dense<T> compute_result(const TypedNode& node, const std::vector<const Dense<T>*>& inputs) {
  switch (node.op->role()) {
    case ops::Role::kSource:
      return make_constant_values<T>(*node.op, node.type.shape.sizes);
    case ops::Role::kParallel:
      return *inputs[0];
    case ops::Role::kJoin:
      return add_tensors(inputs);
    case ops::Role::kCompute:
      break;
  }
  std::vector<Shape> shapes;
  shapes.reserve(inputs.size());
  for (const auto* input : inputs) shapes.push_back(input->shape);
  const auto& s = ops::get_signature(*node.op, shapes);
  if constexpr (std::is_same_v<T, Field>) {
    return evaluate_in_field(s, node.type.shape.sizes, inputs);
  } else {
    return evaluate_meaning(s, inputs);
  }
}

Hash draw_hash(Hash seed, std::size_t variable, std::size_t element) {
  return hash_combine(hash_combine(seed, variable), element);
}

// Bound on drawn indices. Sizes are small, so as many indices are below the smallest size as
// beyond.
constexpr Hash kIndices = 4;

template <class T, class Draw>
Operands<T> draw_operands(const Instance& instance, Hash seed, Hash indices, Draw&& real) {
  Operands<T> out;
  for (std::size_t v = 0; v < instance.tensors.size(); ++v) {
    const auto& type = instance.tensors[v];
    auto& values = out.emplace_back(type.shape.sizes);
    for (std::size_t e = 0; e < values.data.size(); ++e) {
      const auto h = draw_hash(seed, v, e);
      values.data[e] = is_integer(type.dtype)
                           ? term::Numbers<T>::from_index(static_cast<std::int64_t>(h % indices))
                           : real(h);
    }
  }
  return out;
}

Operands<Field> draw_field_operands(const Instance& instance, Hash seed) {
  return draw_operands<Field>(instance, seed, kIndices, [](Hash h) { return Field(h); });
}

// The share of negative numbers: `negative` among `of`. Both are at most 16.
struct Signs {
  Hash negative = 2;
  Hash of = 4;
  Hash bit = 60;   // position of the four hash bits that decide
  Hash zeros = 0;  // number of zeros among four integers
};

// Draws small integers other than 0 if `whole`, else numbers in between.
Operands<double> draw_real_operands(const Instance& instance, Hash seed, Hash indices, bool whole,
                                    Signs signs) {
  return draw_operands<double>(instance, seed, indices, [&](Hash h) {
    constexpr Hash kLargest = 5;
    const auto sign = (h >> signs.bit) % 16 % signs.of < signs.negative ? -1.0 : 1.0;
    if (whole && (h >> 32U) % 4 < signs.zeros) return 0.0;
    if (whole) return sign * static_cast<double>(1 + h % kLargest);
    return sign * static_cast<double>(h >> 20U) * 0x1p-42;
  });
}

bool differ(double a, double b) {
  constexpr double kTolerance = 1e-7;
  if (std::isnan(a) || std::isnan(b) || std::isinf(a) || std::isinf(b)) return false;
  return std::abs(a - b) > kTolerance * (1 + std::abs(a) + std::abs(b));
}

std::string format_values(const Rule& rule, const Operands<double>& operands) {
  constexpr std::size_t kMostShown = 12;
  std::size_t count = 0;
  for (const auto& t : operands) count += t.data.size();
  if (count > kMostShown) return "";
  std::vector<std::string> parts;
  for (std::size_t v = 0; v < operands.size(); ++v) {
    std::vector<std::string> numbers;
    for (auto n : operands[v].data) numbers.push_back(fmt::format("{:.4g}", n));
    parts.push_back(fmt::format("?{} = [{}]", rule.tensors[v], join(numbers, ", ")));
  }
  return parts.empty() ? "" : ", with " + join(parts, ", ");
}

Shape unflatten_index(const Shape& shape, std::size_t flat) {
  Shape out = shape;
  for (std::size_t d = shape.rank(); d-- > 0;) {
    out[d] = static_cast<std::int64_t>(flat) % shape[d];
    flat /= static_cast<std::size_t>(shape[d]);
  }
  return out;
}

// The values of a side, by node.
template <class T>
class SideValues {
 public:
  SideValues(const TypedSide& side, const Operands<T>& operands)
      : results_(side.nodes.size()), values_(side.nodes.size()) {
    for (std::size_t n = 0; n < side.nodes.size(); ++n) {
      const auto& node = side.nodes[n];
      values_[n] = node.op ? &results_[n] : &operands[node.variable];
      if (node.op) results_[n] = compute_result(node, get_inputs(node));
    }
  }
  [[nodiscard]] const Dense<T>& operator[](std::size_t n) const { return *values_[n]; }
  [[nodiscard]] std::vector<const Dense<T>*> get_inputs(const TypedNode& node) const {
    std::vector<const Dense<T>*> out;
    out.reserve(node.inputs.size());
    for (auto i : node.inputs) out.push_back(values_[i]);
    return out;
  }

 private:
  std::vector<Dense<T>> results_;
  std::vector<const Dense<T>*> values_;
};

// Returns whether values are not finite because an operator is undefined there (x / 0), and not
// because numbers grew too large. No operator makes infinities of numbers this small.
bool is_undefined(const TypedSide& side, const SideValues<double>& values) {
  constexpr double kSmall = 100;
  bool any = false;
  for (std::size_t n = 0; n < side.nodes.size(); ++n) {
    const auto all = [](const Dense<double>& t, auto&& holds) {
      return std::ranges::all_of(t.data, holds);
    };
    const auto is_finite = [](double x) { return std::isfinite(x); };
    const auto inputs = values.get_inputs(side.nodes[n]);
    if (all(values[n], is_finite)) continue;
    const bool begins_here =
        std::ranges::all_of(inputs, [&](const auto* t) { return all(*t, is_finite); });
    if (!begins_here) continue;
    any = true;
    const auto is_small = [](double x) { return std::abs(x) <= kSmall; };
    if (!std::ranges::all_of(inputs, [&](const auto* t) { return all(*t, is_small); }))
      return false;
  }
  return any;
}

// Returns whether the operator is undefined for some numbers.
bool can_be_undefined(const TypedNode& node, const TypedSide& side) {
  std::vector<Shape> shapes;
  for (auto i : node.inputs) shapes.push_back(side.nodes[i].type.shape.sizes);
  const auto& meaning = ops::get_signature(*node.op, shapes).meaning;
  return std::ranges::any_of(meaning.nodes, [](const term::BoundNode& n) {
    return n.kind == term::Kind::kDiv ||
           (n.kind == term::Kind::kFunction &&
            (n.function == term::Function::kLog || n.function == term::Function::kSqrt));
  });
}

std::optional<std::string> find_difference(const Rule& rule, const TypedSide& source,
                                           const TypedSide& target,
                                           const Operands<double>& operands) {
  const auto a = evaluate(source, operands);
  const SideValues<double> of_target(target, operands);
  std::vector<Dense<double>> b;
  for (auto o : target.outputs) b.push_back(of_target[o]);
  const bool undefined = is_undefined(target, of_target);
  for (std::size_t o = 0; o < a.size(); ++o) {
    for (std::size_t e = 0; e < a[o].data.size(); ++e) {
      const bool only_target =
          undefined && std::isfinite(a[o].data[e]) && !std::isfinite(b[o].data[e]);
      if (!only_target && !differ(a[o].data[e], b[o].data[e])) continue;
      const auto which = a.size() == 1 ? std::string() : fmt::format(" of output {}", o);
      return fmt::format("element {}{} is {:.6g} and {:.6g}{}",
                         to_text(unflatten_index(a[o].shape, e)), which, a[o].data[e], b[o].data[e],
                         format_values(rule, operands));
    }
  }
  return std::nullopt;
}

graph::Graph build_graph(const TypedSide& side) {
  graph::GraphBuilder builder("side");
  std::vector<graph::NodeId> ids;
  std::vector<graph::NodeId> inputs;
  for (const auto& node : side.nodes) {
    if (!node.op) {
      constexpr std::int64_t kBelow = 4;
      const bool index = is_integer(node.type.dtype);
      ids.push_back(builder.input(fmt::format("v{}_{}", node.variable, ids.size()), node.type.shape,
                                  node.type.dtype, index ? kBelow : 0));
      continue;
    }
    inputs.clear();
    for (auto i : node.inputs) inputs.push_back(ids[i]);
    ids.push_back(builder.add(*node.op, inputs));
  }
  std::vector<graph::NodeId> outputs;
  for (auto o : side.outputs) outputs.push_back(ids[o]);
  return builder.finish(std::move(outputs));
}

}  // namespace

std::vector<graph::NodeId> add_side(graph::GraphBuilder& builder, const TypedSide& side,
                                    std::span<const graph::NodeId> variables) {
  std::vector<graph::NodeId> out;
  out.reserve(side.nodes.size());
  for (const auto& node : side.nodes) {
    if (!node.op) {
      out.push_back(variables[node.variable]);
      continue;
    }
    std::vector<graph::NodeId> inputs;
    inputs.reserve(node.inputs.size());
    for (auto input : node.inputs) inputs.push_back(out[input]);
    out.push_back(builder.add(*node.op, inputs));
  }
  std::vector<graph::NodeId> outputs;
  outputs.reserve(side.outputs.size());
  for (auto output : side.outputs) outputs.push_back(out[output]);
  return outputs;
}

template <class T>
std::vector<Dense<T>> evaluate(const TypedSide& side, const Operands<T>& operands) {
  const SideValues<T> values(side, operands);
  std::vector<Dense<T>> out;
  out.reserve(side.outputs.size());
  for (auto o : side.outputs) out.push_back(values[o]);
  return out;
}

std::vector<Dense<Field>> evaluate_sharded(const TypedSide& side, const Operands<Field>& operands,
                                           bool* replicas_agree) {
  const auto pcg = build_graph(side);
  const auto values = graph::run_sharded_forward<Field>(pcg, [&](graph::NodeId id) {
    const auto& node = side.nodes[id.index()];
    return node.op ? make_constant_values<Field>(*node.op, node.type.shape.sizes)
                   : operands[node.variable];
  });
  std::vector<Dense<Field>> out;
  for (auto o : pcg.outputs()) {
    bool agree = true;
    out.push_back(graph::assemble(values[o.index()], &agree));
    if (replicas_agree != nullptr && !agree) *replicas_agree = false;
  }
  return out;
}

std::string to_text(const Rule& rule, const Refutation& refutation) {
  const auto where = to_text(rule, refutation.instance);
  return where.empty() ? refutation.what : where + ": " + refutation.what;
}

namespace {

// Does the same for typed sides, both of which fit.
std::optional<Refutation> find_refutation_in_reals(const Rule& rule, const Instance& instance,
                                                   const TypedSide& source, const TypedSide& target,
                                                   int draws, Hash seed, Hash indices,
                                                   std::optional<Signs> signs = {}) {
  for (int i = 0; i < draws; ++i) {
    // A long sum of mostly positive numbers is positive, too, and shows nothing of a relu.
    const auto by_draw = Signs{.negative = 1 + static_cast<Hash>(i) % 3};
    const auto operands = draw_real_operands(instance, hash_combine(seed, static_cast<Hash>(i)),
                                             indices, i < (draws + 1) / 2, signs.value_or(by_draw));
    if (auto what = find_difference(rule, source, target, operands)) {
      return Refutation{instance, std::move(*what)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refutation> find_refutation_in_reals(const Rule& rule, const Instance& instance,
                                                   int draws, Hash seed) {
  const auto source = type_side(rule.source, instance);
  const auto target = type_side(rule.target, instance);
  CHECK(source && target, rule.name);
  return find_refutation_in_reals(rule, instance, *source, *target, draws, seed, kIndices);
}

std::optional<Refutation> find_refutation_by_few_negatives(const Rule& rule,
                                                           const Instance& instance, int draws,
                                                           Hash seed) {
  const auto source = type_side(rule.source, instance);
  const auto target = type_side(rule.target, instance);
  CHECK(source && target, rule.name);
  const auto is_large = [](const TypedNode& node) {
    constexpr std::int64_t kLarge = 2048;  // elements; larger tensors would take long
    return node.type.shape.sizes.count() > kLarge;
  };
  for (const auto* side : {&*source, &*target}) {
    if (std::ranges::any_of(side->nodes, is_large)) return std::nullopt;
  }
  return find_refutation_in_reals(rule, instance, *source, *target, draws, seed, kIndices,
                                  Signs{.negative = 1, .of = 16, .bit = 56});
}

std::optional<Refutation> find_undefined_target(const Rule& rule, const Instance& instance,
                                                Hash seed) {
  const auto target = type_side(rule.target, instance);
  CHECK(target.has_value(), rule.name);
  const bool partial = std::ranges::any_of(target->nodes, [&](const TypedNode& node) {
    return node.op && node.op->role() == ops::Role::kCompute && can_be_undefined(node, *target);
  });
  if (!partial) return std::nullopt;
  // The second draw has zeros: x / y is undefined only at y = 0.
  for (const Signs signs : {Signs{}, Signs{.zeros = 2}}) {
    const auto operands = draw_real_operands(instance, seed, kIndices, true, signs);
    if (!is_undefined(*target, SideValues<double>(*target, operands))) continue;
    const auto source = type_side(rule.source, instance);
    auto what = find_difference(rule, *source, *target, operands);
    if (what) return Refutation{instance, std::move(*what)};
  }
  return std::nullopt;
}

std::optional<Refutation> find_refutation_beyond_tables(const Rule& rule, const Instance& instance,
                                                        int draws, Hash seed) {
  const bool has_indices = std::ranges::any_of(
      instance.tensors, [](const TensorType& type) { return is_integer(type.dtype); });
  if (!has_indices) return std::nullopt;
  const auto source = type_side(rule.source, instance);
  const auto target = type_side(rule.target, instance);
  CHECK(source && target, rule.name);
  return find_refutation_in_reals(rule, instance, *source, *target, draws, seed, 2 * kIndices);
}

Comparison compare(const Rule& rule, const Instance& instance, int real_draws, Hash seed,
                   Refutation* refutation) {
  const auto source = type_side(rule.source, instance);
  const auto target = type_side(rule.target, instance);
  CHECK(source && target, rule.name);
  const auto operands = draw_field_operands(instance, hash_combine(seed, 0));
  if (evaluate(*source, operands) == evaluate(*target, operands)) return Comparison::kEqual;
  auto found =
      find_refutation_in_reals(rule, instance, *source, *target, real_draws, seed, kIndices);
  if (!found) return Comparison::kDifferentInField;
  if (refutation != nullptr) *refutation = std::move(*found);
  return Comparison::kDifferent;
}

bool shards_agree(const Rule& rule, const Instance& instance, Hash seed) {
  const auto operands = draw_field_operands(instance, seed);
  for (const auto* side : {&rule.source, &rule.target}) {
    const auto typed = type_side(*side, instance);
    CHECK(typed.has_value(), rule.name);
    bool replicas_agree = true;
    if (evaluate_sharded(*typed, operands, &replicas_agree) != evaluate(*typed, operands)) {
      return false;
    }
    if (!replicas_agree) return false;
  }
  return true;
}

Refutation describe_misfit(const Rule& rule, const Instance& instance) {
  const auto source = type_side(rule.source, instance);
  CHECK(source.has_value(), rule.name);
  const auto target = type_side(rule.target, instance);
  if (!target) return {instance, "the source fits, the target does not"};
  for (std::size_t o = 0; o < rule.source.outputs.size(); ++o) {
    const auto& a = source->nodes[source->outputs[o]].type;
    const auto& b = target->nodes[target->outputs[o]].type;
    if (a == b) continue;
    return {instance, fmt::format("the source is {} {} and the target {} {}", to_text(a.shape),
                                  name(a.dtype), to_text(b.shape), name(b.dtype))};
  }
  return {instance, "both fit"};
}

template std::vector<Dense<double>> evaluate(const TypedSide&, const Operands<double>&);
template std::vector<Dense<Field>> evaluate(const TypedSide&, const Operands<Field>&);

}  // namespace tandem::verify
