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

std::int64_t Call::opset() const {
  return node_.domain == "com.microsoft" ? std::int64_t{17} : importer_.opset_;
}

const Attribute* Call::attribute(std::string_view name) {
  if (!node_.attributes.empty()) asked_.push_back(name);
  for (const auto& a : node_.attributes) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

std::int64_t Call::integer(std::string_view name, std::int64_t otherwise) {
  const auto* a = attribute(name);
  if (a != nullptr && a->type != 0 && a->type != 2) {
    reject(fmt::format("attribute {} must be an integer", name));
  }
  return a == nullptr ? otherwise : a->i;
}

double Call::real(std::string_view name, double otherwise) {
  const auto* a = attribute(name);
  if (a != nullptr && a->type != 0 && a->type != 1) {
    reject(fmt::format("attribute {} must be a number", name));
  }
  return a == nullptr ? otherwise : static_cast<double>(a->f);
}

std::string Call::text(std::string_view name, const std::string& otherwise) {
  const auto* a = attribute(name);
  return a == nullptr ? otherwise : std::string(a->s);
}

std::optional<Sizes> Call::integers(std::string_view name) {
  const auto* a = attribute(name);
  if (a == nullptr) return std::nullopt;
  if (a->type != 0 && a->type != 7) {
    reject(fmt::format("attribute {} must be a list of integers", name));
  }
  return a->ints;
}

void Call::check_attributes() const {
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

Value& Call::value(std::size_t i) {
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

std::size_t Call::axis(std::int64_t axis, std::size_t rank) const {
  const auto size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size) {
    reject(fmt::format("axis {} is out of range for a tensor of rank {}", axis, rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

NodeId Call::tensor(std::size_t i) {
  auto& v = value(i);
  return importer_.tensor(node_.inputs[i], v, false);
}

NodeId Call::weight(std::size_t i) {
  auto& v = value(i);
  return importer_.tensor(node_.inputs[i], v, true);
}

NodeId Call::factor(std::size_t i) { return value(i).input ? tensor(i) : weight(i); }

NodeId Call::index(std::size_t i, std::int64_t below) { return importer_.index(value(i), below); }
NodeId Call::real_input(std::size_t i, DType dtype) {
  return importer_.real_input(value(i), dtype);
}

NodeId Call::constant(const Known& k, DType dtype) {
  if (node_.outputs.empty()) reject("the node has no output");
  return importer_.source_of(fmt::format("{}.constant", node_.outputs[0]), k, dtype);
}

NodeId Call::fixed_index(const Known& k, std::int64_t below) {
  if (node_.outputs.empty()) reject("the node has no output");
  const auto name = fmt::format("{}.rows", node_.outputs[0]);
  const auto id = importer_.input(name, k.sizes, DType::kInt64, below);
  Dense<double> contents{Shape(k.sizes)};
  for (std::size_t i = 0; i < k.count(); ++i) contents.data[i] = k.real(i);
  importer_.out_.fixed.emplace(importer_.builder_.node(id).name, std::move(contents));
  return id;
}

NodeId Call::scalar(double value, DType dtype) {
  return constant({.type = kDouble, .reals = {value}}, dtype);
}

KnownPtr Call::known(std::size_t i) {
  auto& v = value(i);
  const bool is_weight = !v.known && v.data && real_type(v.type) && !v.sizes.empty();
  return is_weight ? nullptr : importer_.known(v);
}

bool Call::is_known(std::size_t i) {
  const auto& v = value(i);
  const bool is_weight = v.data && real_type(v.type) && !v.sizes.empty();
  return v.known || (!is_weight && (!v.stored.empty() || v.fill));
}

KnownPtr Call::contents(std::size_t i) { return importer_.known(value(i)); }

Sizes Call::known_integers(std::size_t i, std::string_view what) {
  const auto k = contents(i);
  if (!k) {
    reject(fmt::format("{} must be constant, but is computed from inputs", what),
           "shapes must be static; set sizes with --batch and --dim");
  }
  if (!k->whole()) reject(fmt::format("{} must contain integers", what));
  return k->ints;
}

std::optional<double> Call::known_scalar(std::size_t i) {
  const auto& v = value(i);
  if (std::ranges::any_of(v.sizes, [](auto size) { return size != 1; })) return std::nullopt;
  const auto k = known(i);
  if (!k || k->count() != 1) return std::nullopt;
  return k->real(0);
}

std::optional<double> Call::scalar_contents(std::size_t i) {
  if (std::ranges::any_of(value(i).sizes, [](auto size) { return size != 1; })) return std::nullopt;
  const auto k = contents(i);
  return k && k->count() == 1 ? std::optional(k->real(0)) : std::nullopt;
}

std::optional<Sizes> Call::integers_or_input(std::string_view name, std::size_t i) {
  if (auto list = integers(name)) return list;
  if (has(i)) return known_integers(i, name);
  return std::nullopt;
}

// --- Results ------------------------------------------------------------------------------------

DType Call::dtype(NodeId id) const { return importer_.builder_.node(id).type.dtype; }

Sizes Call::sizes_of(NodeId id) const {
  const auto& shape = importer_.builder_.node(id).type.shape.sizes;
  return {shape.begin(), shape.end()};
}

NodeId Call::add(const ops::Op& op, std::span<const NodeId> inputs) {
  if (node_.outputs.empty()) reject("the node has no output");
  return importer_.add(op, inputs, fmt::format("{}.{}", node_.outputs[0], op.name()));
}

void Call::result(const ops::Op& op, std::span<const NodeId> inputs, std::size_t i) {
  if (!wants(i)) return;
  result(importer_.value_of(importer_.add(op, inputs, node_.outputs[i])), i);
}

void Call::result(Value value, std::size_t i) {
  if (wants(i)) importer_.define(node_.outputs[i], std::move(value));
}

void Call::result(Known known) {
  charge(static_cast<std::int64_t>(known.count()));
  Value v{.type = known.type, .sizes = known.sizes};
  v.known = std::make_shared<Known>(std::move(known));
  result(std::move(v));
}

void Call::unusable(std::size_t i, const std::string& why) {
  if (wants(i)) result(Value{.unusable = why}, i);
}

// PyTorch writes initializers of equal contents once, and the others as an Identity of it. If all
// elements are equal, as in fresh normalizations, the equality is a coincidence: they are different
// weights.
void Call::identity(std::size_t output, std::size_t input) {
  auto& v = value(input);
  Value same = v;
  const bool weight = !v.stored.empty() && v.data && real_type(v.type);
  if (!v.node && v.tied.empty() && (v.input || (weight && !is_uniform(read_tensor(v.stored))))) {
    same.tied = node_.inputs[input];
  }
  result(std::move(same), output);
}

void Call::move(const ops::Op& op, std::size_t input, std::size_t output) {
  auto& v = value(input);
  if (v.fed.empty()) {
    result(op, {tensor(input)}, output);
    return;
  }
  result(moved(v, op), output);
}

Value Call::moved(const Value& fed, const ops::Op& op) const {
  constexpr std::size_t kMostMoves = 64;  // each tensor on the way stores the moves before it
  if (fed.moves.size() == kMostMoves)
    reject("an integer input passes through too many reshapes, transposes and slices");
  Value out = fed;
  out.moves.push_back(op);
  try {
    const TensorType from{ParallelShape(Shape(fed.sizes)), DType::kFp32};
    const auto shape = graph::result_type(op, std::span(&from, 1)).shape.sizes;
    out.sizes.assign(shape.begin(), shape.end());
  } catch (const UserError& e) {
    reject(e.message, e.hint);
  }
  return out;
}

namespace {

ops::Op reshape_to(const Sizes& sizes) { return ops::make_op(ops::kReshape, ops::Reshape{sizes}); }

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

NodeId Call::reshaped(NodeId id, const Sizes& sizes) {
  const auto from = sizes_of(id);
  if (from == sizes) return id;
  if (!nests(from, sizes)) id = add(reshape_to({-1}), {id});
  return add(reshape_to(sizes), {id});
}

void Call::reshape(const Sizes& to, std::size_t output) {
  auto& v = value(0);
  if (const auto k = known(0)) {
    Known shaped = *k;
    shaped.sizes = to;
    if (static_cast<std::int64_t>(k->count()) != count_elements(to, "the result")) {
      reject("the result has a different number of elements");
    }
    result(std::move(shaped));
    return;
  }
  if (v.sizes == to) {
    identity(output);
    return;
  }
  if (v.fed.empty() && !nests(v.sizes, to)) {
    result(reshape_to(to), {add(reshape_to({-1}), {tensor(0)})}, output);
    return;
  }
  move(reshape_to(to), 0, output);
}

void Call::causal(std::size_t i, KnownPtr mask, bool times_mask) {
  Value v{.type = value(i).type, .sizes = value(i).sizes};
  // A mask that the scores were multiplied by hides the same elements and is dropped.
  const auto& before = value(i);
  v.scores = before.times_mask && !before.node && !times_mask ? *before.scores : tensor(i);
  v.mask = std::move(mask);
  v.times_mask = times_mask;
  result(std::move(v));
}

std::string Call::derived_key() {
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

void Call::derived(std::int32_t type, Sizes sizes) {
  if (!wants(0)) return;
  // Layers repeat the same expression: equal expressions become one input.
  const auto key = derived_key();
  if (const auto same = importer_.derived_before_.find(key);
      !key.empty() && same != importer_.derived_before_.end()) {
    result(Value(importer_.values_.at(same->second)));
    return;
  }
  if (!key.empty()) importer_.derived_before_.emplace(key, node_.outputs[0]);
  importer_.input_types_[node_.outputs[0]] = type;
  importer_.derived_.insert(node_.outputs[0]);
  result(Value{.type = type, .sizes = std::move(sizes), .fed = node_.outputs[0]});
}

void Call::note_from_whole() {
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

void Call::charge(std::int64_t elements) { importer_.charge(elements); }

std::int64_t Call::next_dropout() { return ++importer_.dropouts_; }

}  // namespace tandem::import
