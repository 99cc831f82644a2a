#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "import/importer.h"
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::import {

namespace {

// Attributes that do not change the result: hints for execution, or settings for inference only.
constexpr std::array kWithoutMeaning = {"consumed_inputs", "is_test",           "momentum",
                                        "order",           "exhaustive_search", "ws_nbytes_limit",
                                        "stash_type",      "__torch_scope",     "saturate"};

}  // namespace

// --- Attributes ---------------------------------------------------------------------------------

std::int64_t OnnxCall::opset() const {
  return node_.domain == "com.microsoft" ? std::int64_t{17} : importer_.opset_;
}

const Attribute* OnnxCall::attribute(std::string_view name) {
  if (!node_.attributes.empty()) asked_.push_back(name);
  for (const auto& a : node_.attributes) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

std::int64_t OnnxCall::integer(std::string_view name, std::int64_t otherwise) {
  const auto* a = attribute(name);
  if (a != nullptr && a->type != 0 && a->type != 2) {
    reject(fmt::format("attribute {} must be an integer", name));
  }
  return a == nullptr ? otherwise : a->i;
}

double OnnxCall::real(std::string_view name, double otherwise) {
  const auto* a = attribute(name);
  if (a != nullptr && a->type != 0 && a->type != 1) {
    reject(fmt::format("attribute {} must be a number", name));
  }
  return a == nullptr ? otherwise : static_cast<double>(a->f);
}

std::string OnnxCall::text(std::string_view name, const std::string& otherwise) {
  const auto* a = attribute(name);
  return a == nullptr ? otherwise : std::string(a->s);
}

std::optional<Sizes> OnnxCall::integers(std::string_view name) {
  const auto* a = attribute(name);
  if (a == nullptr) return std::nullopt;
  if (a->type != 0 && a->type != 7) {
    reject(fmt::format("attribute {} must be a list of integers", name));
  }
  return a->ints;
}

void OnnxCall::check_attributes() const {
  for (const auto& a : node_.attributes) {
    if (std::ranges::find(asked_, a.name) != asked_.end() ||
        std::ranges::find(kWithoutMeaning, a.name) != kWithoutMeaning.end()) {
      continue;
    }
    if (a.name.starts_with('_')) continue;  // annotations that other programs leave
    reject(fmt::format("attribute {} is not supported", a.name));
  }
}

// --- Operands -----------------------------------------------------------------------------------

Value& OnnxCall::value(std::size_t i) {
  if (!has(i)) reject(fmt::format("input {} is missing", i));
  const auto at = importer_.values_.find(node_.inputs[i]);
  if (at == importer_.values_.end()) {
    reject(
        fmt::format(
            "input {} is '{}', which is no graph input, initializer or output of an earlier node",
            i, node_.inputs[i]),
        "sort the nodes: each must come after the nodes that it reads");
  }
  return at->second;
}

std::size_t OnnxCall::axis(std::int64_t axis, std::size_t rank) const {
  const auto size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size) {
    reject(fmt::format("axis {} is out of range for a tensor of rank {}", axis, rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

NodeId OnnxCall::tensor(std::size_t i) {
  auto& v = value(i);
  return importer_.tensor(node_.inputs[i], v, false);
}

NodeId OnnxCall::weight(std::size_t i) {
  auto& v = value(i);
  return importer_.tensor(node_.inputs[i], v, true);
}

NodeId OnnxCall::factor(std::size_t i) { return value(i).input ? tensor(i) : weight(i); }

NodeId OnnxCall::index(std::size_t i, std::int64_t below) {
  return importer_.index(value(i), below);
}
NodeId OnnxCall::real_input(std::size_t i, DType dtype) {
  return importer_.real_input(value(i), dtype);
}

NodeId OnnxCall::constant(const Known& k, DType dtype) {
  if (node_.outputs.empty()) reject("the node has no output");
  return importer_.add_source(fmt::format("{}.constant", node_.outputs[0]), k, dtype);
}

NodeId OnnxCall::fixed_index(const Known& k, std::int64_t below) {
  if (node_.outputs.empty()) reject("the node has no output");
  const auto name = fmt::format("{}.rows", node_.outputs[0]);
  const auto id = importer_.add_input(name, k.sizes, DType::kInt64, below);
  Dense<double> contents{Shape(k.sizes)};
  for (std::size_t i = 0; i < k.count(); ++i) contents.data[i] = k.real(i);
  importer_.out_.fixed.emplace(importer_.builder_.node(id).name, std::move(contents));
  return id;
}

NodeId OnnxCall::scalar(double value, DType dtype) {
  return constant({.type = kDouble, .reals = {value}}, dtype);
}

KnownPtr OnnxCall::known(std::size_t i) {
  auto& v = value(i);
  const bool is_weight = !v.known && v.data && to_real_dtype(v.type) && !v.sizes.empty();
  return is_weight ? nullptr : importer_.known(v);
}

bool OnnxCall::is_known(std::size_t i) {
  const auto& v = value(i);
  const bool is_weight = v.data && to_real_dtype(v.type) && !v.sizes.empty();
  return v.known || (!is_weight && (!v.stored.empty() || v.fill));
}

KnownPtr OnnxCall::contents(std::size_t i) { return importer_.known(value(i)); }

Sizes OnnxCall::known_integers(std::size_t i, std::string_view what) {
  const auto k = contents(i);
  if (!k) {
    reject(fmt::format("{} must be constant, but is computed from inputs", what),
           "shapes must be static; set sizes with --batch and --dim");
  }
  if (!k->has_integers()) reject(fmt::format("{} must contain integers", what));
  return k->ints;
}

std::optional<double> OnnxCall::known_scalar(std::size_t i) {
  const auto& v = value(i);
  if (std::ranges::any_of(v.sizes, [](auto size) { return size != 1; })) return std::nullopt;
  const auto k = known(i);
  if (!k || k->count() != 1) return std::nullopt;
  return k->real(0);
}

std::optional<double> OnnxCall::scalar_contents(std::size_t i) {
  if (std::ranges::any_of(value(i).sizes, [](auto size) { return size != 1; })) return std::nullopt;
  const auto k = contents(i);
  return k && k->count() == 1 ? std::optional(k->real(0)) : std::nullopt;
}

std::optional<Sizes> OnnxCall::integers_or_input(std::string_view name, std::size_t i) {
  if (auto list = integers(name)) return list;
  if (has(i)) return known_integers(i, name);
  return std::nullopt;
}

// --- Results ------------------------------------------------------------------------------------

DType OnnxCall::dtype(NodeId id) const { return importer_.builder_.node(id).type.dtype; }

Sizes OnnxCall::node_sizes(NodeId id) const {
  const auto& shape = importer_.builder_.node(id).type.shape.sizes;
  return {shape.begin(), shape.end()};
}

NodeId OnnxCall::add(const ops::Op& op, std::span<const NodeId> inputs) {
  if (node_.outputs.empty()) reject("the node has no output");
  return importer_.add(op, inputs, fmt::format("{}.{}", node_.outputs[0], op.name()));
}

void OnnxCall::set_result(const ops::Op& op, std::span<const NodeId> inputs, std::size_t i) {
  if (!wants(i)) return;
  set_result(importer_.make_value(importer_.add(op, inputs, node_.outputs[i])), i);
}

void OnnxCall::set_result(Value value, std::size_t i) {
  if (wants(i)) importer_.define(node_.outputs[i], std::move(value));
}

void OnnxCall::set_result(Known known) {
  charge(static_cast<std::int64_t>(known.count()));
  Value v{.type = known.type, .sizes = known.sizes};
  v.known = std::make_shared<Known>(std::move(known));
  set_result(std::move(v));
}

void OnnxCall::mark_unusable(std::size_t i, const std::string& why) {
  if (wants(i)) set_result(Value{.unusable = why}, i);
}

// PyTorch writes initializers of equal contents once, and the others as an Identity of it. If all
// elements are equal, as in fresh normalizations, the equality is a coincidence: they are different
// weights.
void OnnxCall::alias_input(std::size_t output, std::size_t input) {
  auto& v = value(input);
  Value same = v;
  const bool weight = !v.stored.empty() && v.data && to_real_dtype(v.type);
  if (!v.node && v.tied.empty() && (v.input || (weight && !is_uniform(read_tensor(v.stored))))) {
    same.tied = node_.inputs[input];
  }
  set_result(std::move(same), output);
}

void OnnxCall::apply_move(const ops::Op& op, std::size_t input, std::size_t output) {
  auto& v = value(input);
  if (v.fed.empty()) {
    set_result(op, {tensor(input)}, output);
    return;
  }
  set_result(move_fed_input(v, op), output);
}

Value OnnxCall::move_fed_input(const Value& fed, const ops::Op& op) const {
  constexpr std::size_t kMostMoves = 64;  // each tensor on the way stores the moves before it
  if (fed.moves.size() == kMostMoves)
    reject("an integer input passes through too many reshapes, transposes and slices");
  Value out = fed;
  out.moves.push_back(op);
  try {
    const TensorType from{ParallelShape(Shape(fed.sizes)), DType::kFp32};
    const auto shape = graph::infer_result_type(op, std::span(&from, 1)).shape.sizes;
    out.sizes.assign(shape.begin(), shape.end());
  } catch (const UserError& e) {
    reject(e.message, e.hint);
  }
  return out;
}

namespace {

ops::Op make_reshape(const Sizes& sizes) {
  return ops::make_op(ops::kReshape, ops::Reshape{sizes});
}

// Returns whether the dimensions of `from` and `to` nest, as the operator reshape requires.
bool nests(const Sizes& from, const Sizes& to) {
  if (count_elements(from, "a tensor") == 0) reject("a tensor has no elements");
  std::size_t i = from.size();
  std::size_t j = to.size();
  std::int64_t a = 1;
  std::int64_t b = 1;
  while (i > 0 || j > 0) {
    if (i > 0 && (a <= b || j == 0)) {
      a *= from[--i];
    } else {
      b *= to[--j];
    }
    if (a % b != 0 && b % a != 0) return false;
  }
  return true;
}

}  // namespace

NodeId OnnxCall::add_reshape(NodeId id, const Sizes& sizes) {
  const auto from = node_sizes(id);
  if (from == sizes) return id;
  if (!nests(from, sizes)) id = add(make_reshape({-1}), {id});
  return add(make_reshape(sizes), {id});
}

void OnnxCall::reshape(const Sizes& to, std::size_t output) {
  auto& v = value(0);
  if (const auto k = known(0)) {
    Known shaped = *k;
    shaped.sizes = to;
    if (static_cast<std::int64_t>(k->count()) != count_elements(to, "the result")) {
      reject("the result has a different number of elements");
    }
    set_result(std::move(shaped));
    return;
  }
  if (v.sizes == to) {
    alias_input(output);
    return;
  }
  if (v.fed.empty() && !nests(v.sizes, to)) {
    set_result(make_reshape(to), {add(make_reshape({-1}), {tensor(0)})}, output);
    return;
  }
  apply_move(make_reshape(to), 0, output);
}

void OnnxCall::set_masked_scores(std::size_t i, KnownPtr mask, bool times_mask) {
  Value v{.type = value(i).type, .sizes = value(i).sizes};
  // A mask that the scores were multiplied by hides the same elements and is dropped.
  const auto& before = value(i);
  v.scores = before.times_mask && !before.node && !times_mask ? *before.scores : tensor(i);
  v.mask = std::move(mask);
  v.times_mask = times_mask;
  set_result(std::move(v));
}

std::string OnnxCall::make_derived_key() {
  constexpr std::size_t kSmall = 16;
  constexpr std::size_t kLong = 256;
  std::string key(node_.op);
  for (const auto& a : node_.attributes) {
    if (a.type != 2) return "";
    key += fmt::format(" {}={}", a.name, a.i);
  }
  for (std::size_t i = 0; i < inputs(); ++i) {
    if (!has(i)) return "";
    const auto& v = value(i);
    if (v.fed.size() + node_.inputs[i].size() > kLong) return "";
    const bool small = is_known(i) && count_elements(v.sizes, "it") <= std::int64_t{kSmall};
    if (const auto k = small ? known(i) : nullptr) {
      key += fmt::format("\n{} {}", fmt::join(k->sizes, ","), k->type);
      for (std::size_t e = 0; e < k->count(); ++e) key += fmt::format(" {}", k->real(e));
    } else if (!v.fed.empty() && v.moves.empty()) {
      key += fmt::format("\nfed {} {}", v.type, v.fed);
    } else {
      key += fmt::format("\nname {}", node_.inputs[i]);
    }
  }
  return key;
}

void OnnxCall::set_derived_input(std::int32_t type, Sizes sizes) {
  if (!wants(0)) return;
  // Layers repeat the same expression: equal expressions become one input.
  const auto key = make_derived_key();
  if (const auto same = importer_.derived_before_.find(key);
      !key.empty() && same != importer_.derived_before_.end()) {
    set_result(Value(importer_.values_.at(same->second)));
    return;
  }
  if (!key.empty()) importer_.derived_before_.emplace(key, node_.outputs[0]);
  importer_.input_types_[node_.outputs[0]] = type;
  importer_.derived_.insert(node_.outputs[0]);
  set_result(Value{.type = type, .sizes = std::move(sizes), .fed = node_.outputs[0]});
}

void OnnxCall::note_from_whole() {
  if (node_.inputs.empty()) return;
  for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
    if (!has(i)) continue;
    const auto& v = value(i);
    if (!is_known(i) && v.fed.empty() && !v.from_whole) return;
  }
  for (auto name : node_.outputs) {
    if (const auto at = importer_.values_.find(name); at != importer_.values_.end()) {
      at->second.from_whole = true;
    }
  }
}

void OnnxCall::charge(std::int64_t elements) { importer_.charge(elements); }

std::int64_t OnnxCall::next_dropout() { return ++importer_.dropouts_; }

}  // namespace tandem::import
