#include "ops/signature.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ops/index_text.h"

namespace tandem::ops {

namespace {

// Returns whether some operand carries factor f. Degrees are inferred from the operands, so other
// factors cannot have one.
bool is_carried(const IndexMap& map, FactorId f) {
  for (std::size_t i = 0; i < map.inputs.size(); ++i) {
    if (map.find_input_dim(i, f) >= 0) return true;
  }
  return false;
}

bool is_read_in_windows(const IndexMap& map, FactorId f) {
  for (std::size_t i = 0; i < map.inputs.size(); ++i) {
    const int d = map.find_input_dim(i, f);
    if (d >= 0 && !map.inputs[i][static_cast<std::size_t>(d)].exact) return true;
  }
  return false;
}

FactorUse classify_factor(const IndexMap& map, const term::BoundTerm& meaning, FactorId f) {
  if (map.factors[f].whole || !is_carried(map, f)) return FactorUse::kWhole;
  if (map.find_output_dim(f) >= 0) {
    return is_read_in_windows(map, f) ? FactorUse::kWindowed : FactorUse::kParallel;
  }
  return term::can_shard_sum(meaning, f) || term::can_shard_maximum(meaning, f)
             ? FactorUse::kReducing
             : FactorUse::kWhole;
}

// Returns the minimal sets of operands in which the operator is jointly linear: first single
// operands, then larger sets. For more than four operands it tries only single ones and all of
// them, since concat may have hundreds.
std::vector<InputMask> find_partial_inputs(const term::BoundTerm& meaning, std::size_t inputs) {
  std::vector<InputMask> candidates;
  if (inputs <= 4) {
    for (InputMask mask = 1; mask < (InputMask{1} << inputs); ++mask) candidates.push_back(mask);
    std::ranges::stable_sort(candidates, {}, [](InputMask m) { return std::popcount(m); });
  } else {
    for (std::size_t i = 0; i < inputs; ++i) candidates.push_back(InputMask{1} << i);
    candidates.push_back((InputMask{1} << inputs) - 1);
  }
  std::vector<InputMask> out;
  for (auto mask : candidates) {
    const auto contains = [&](InputMask smaller) { return (mask & smaller) == smaller; };
    if (std::ranges::none_of(out, contains) && term::is_linear(meaning, mask)) out.push_back(mask);
  }
  return out;
}

term::FactorMask collect_factors(const term::Dims& dims) {
  term::FactorMask out = 0;
  for (const auto& dim : dims) {
    for (const auto& part : dim.at.parts) out |= term::bit(part.factor);
  }
  return out;
}

// Returns the contraction of the two operands that have factors which the output lacks. Returns
// nullopt if there are not two of them, or if the output lacks rows or columns.
std::optional<Contraction> find_contraction(const IndexMap& map) {
  const auto output = collect_factors(map.output);
  std::vector<std::size_t> multiplied;
  for (std::size_t i = 0; i < map.inputs.size(); ++i) {
    if ((collect_factors(map.inputs[i]) & ~output) != 0) multiplied.push_back(i);
  }
  if (multiplied.size() != 2) return std::nullopt;
  const auto lhs = collect_factors(map.inputs[multiplied[0]]);
  const auto rhs = collect_factors(map.inputs[multiplied[1]]);
  const Contraction out{.lhs = multiplied[0],
                        .rhs = multiplied[1],
                        .rows = output & lhs & ~rhs,
                        .columns = output & rhs & ~lhs,
                        .depth = (lhs | rhs) & ~output,
                        .batch = output & lhs & rhs};
  return out.rows != 0 && out.columns != 0 ? std::optional(out) : std::nullopt;
}

bool is_same_index(const term::Affine& a, const term::Affine& b) {
  return a.constant == b.constant &&
         std::ranges::equal(a.parts, b.parts, [](const auto& x, const auto& y) {
           return x.factor == y.factor && x.coefficient == y.coefficient;
         });
}

bool reads_at(const std::vector<term::Affine>& at, const term::Dims& dims) {
  return std::ranges::equal(at, dims, is_same_index, {}, &term::Dim::at);
}

bool is_elementwise(const IndexMap& map, const term::BoundTerm& meaning) {
  const bool sums = std::ranges::any_of(meaning.nodes, [&](const term::BoundNode& node) {
    using term::Kind;
    return node.kind == Kind::kSum || node.kind == Kind::kMax ||
           (node.kind == Kind::kInput && !reads_at(node.at, map.inputs[node.input]));
  });
  const auto size = term::to_shape(map.output).count();
  return !sums && std::ranges::all_of(map.inputs, [&](const term::Dims& dims) {
    return term::to_shape(dims).count() < size ||
           std::ranges::equal(dims, map.output, is_same_index, &term::Dim::at, &term::Dim::at);
  });
}

// Rejects a shape whose element count may not fit into an int64, before anything computes it.
void check_count(const Shape& shape) {
  double count = 1;
  for (auto size : shape) count *= static_cast<double>(size);
  if (count > static_cast<double>(kLargestSize)) {
    reject(fmt::format("{} has more than 2^50 elements", to_text(shape)));
  }
}

Signature make_signature(const Op& op, std::span<const Shape> inputs) {
  CHECK(op.role() == Role::kCompute, op.name());
  Signature out;
  out.map = term::resolve_index(op.spec().index_text(op.raw(), inputs), inputs);
  check_count(term::to_shape(out.map.output));
  out.meaning = term::bind(op.spec().meaning(op.raw(), inputs), out.map);
  for (FactorId f = 0; f < out.map.factors.size(); ++f) {
    out.use.push_back(classify_factor(out.map, out.meaning, f));
    if (term::can_shard_maximum(out.meaning, f)) out.monoid = Monoid::kMax;
  }
  out.backward_reads = term::find_saved_inputs(out.meaning);
  out.added_inputs = term::find_added_inputs(out.meaning);
  if (!op.spec().flops(op.raw(), inputs)) out.contraction = find_contraction(out.map);
  out.elementwise = is_elementwise(out.map, out.meaning);
  // If an operator's file defines no gradient, the function holds an empty `Says`.
  const auto& from_result = op.spec().gradient_from_result;
  const auto* said = from_result.target<Says<Term()>>();
  if (from_result && (said == nullptr || *said)) {
    CHECK(inputs.size() == 1, op.name());
    auto map = out.map;
    map.inputs = {out.map.output, out.map.output};
    map.output = out.map.inputs[0];
    out.gradient_from_result = term::bind(from_result(), map);
  }
  out.partial_inputs = find_partial_inputs(out.meaning, inputs.size());
  out.flops =
      op.spec().flops(op.raw(), inputs).value_or(term::count_operations(out.meaning, out.map));
  return out;
}

struct SignatureKey {
  Op op;
  std::vector<Shape> inputs;
};
// Key for lookups without copies.
struct KeyView {
  const Op& op;
  std::span<const Shape> inputs;
  KeyView(const Op& o, std::span<const Shape> i) : op(o), inputs(i) {}
  KeyView(const SignatureKey& key)
      : op(key.op), inputs(key.inputs) {}  // NOLINT(google-explicit-constructor)
};

struct KeyEqual {
  using is_transparent = void;
  bool operator()(const KeyView& a, const KeyView& b) const {
    return a.op == b.op && std::ranges::equal(a.inputs, b.inputs);
  }
};

struct SignatureKeyHash {
  using is_transparent = void;
  std::size_t operator()(const KeyView& key) const {
    Hash h = key.op.hash();
    for (const auto& shape : key.inputs) {
      for (auto size : shape) h = hash_combine(h, static_cast<Hash>(size));
      h = mix(h);
    }
    return h;
  }
};

}  // namespace

const Signature& get_signature(const Op& op, std::span<const Shape> inputs) {
  static std::mutex mutex;
  static std::unordered_map<SignatureKey, std::unique_ptr<const Signature>, SignatureKeyHash,
                            KeyEqual>
      table;
  {
    const std::scoped_lock lock(mutex);
    if (const auto at = table.find(KeyView(op, inputs)); at != table.end()) return *at->second;
  }
  auto made = std::make_unique<const Signature>(make_signature(op, inputs));
  const std::scoped_lock lock(mutex);
  SignatureKey key{op, {inputs.begin(), inputs.end()}};
  return *table.try_emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace tandem::ops
