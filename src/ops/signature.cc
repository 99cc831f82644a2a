#include "ops/signature.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace tandem::ops {

namespace {

// A degree is read off the operands: what none of them shows cannot have one.
bool is_carried(const IndexMap& map, FactorId f) {
  for (std::size_t i = 0; i < map.inputs.size(); ++i) {
    if (map.input_dim(i, f) >= 0) return true;
  }
  return false;
}

bool is_read_in_windows(const IndexMap& map, FactorId f) {
  for (std::size_t i = 0; i < map.inputs.size(); ++i) {
    const int d = map.input_dim(i, f);
    if (d >= 0 && !map.inputs[i][static_cast<std::size_t>(d)].exact) return true;
  }
  return false;
}

FactorUse use_of(const IndexMap& map, const term::BoundTerm& meaning, FactorId f) {
  if (map.factors[f].whole || !is_carried(map, f)) return FactorUse::kWhole;
  if (map.output_dim(f) >= 0) {
    return is_read_in_windows(map, f) ? FactorUse::kWindowed : FactorUse::kParallel;
  }
  return term::sums_in_parts(meaning, f) || term::maximum_in_parts(meaning, f)
             ? FactorUse::kReducing
             : FactorUse::kWhole;
}

// The minimal sets of operands that the operator is linear in together: singles first, then larger
// ones. Beyond a few operands only singles and all of them are tried (concat has hundreds).
std::vector<InputMask> partial_inputs(const term::BoundTerm& meaning, std::size_t inputs) {
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

Signature make_signature(const Op& op, std::span<const Shape> inputs) {
  CHECK(op.role() == Role::kCompute, op.name());
  Signature out;
  out.map = term::resolve_index(op.spec().index_text(op.raw(), inputs), inputs);
  out.meaning = term::bind(op.spec().meaning(op.raw(), inputs), out.map);
  for (FactorId f = 0; f < out.map.factors.size(); ++f) {
    out.use.push_back(use_of(out.map, out.meaning, f));
    if (term::maximum_in_parts(out.meaning, f)) out.monoid = Monoid::kMax;
  }
  out.backward_reads = term::backward_reads(out.meaning);
  if (const auto& from_result = op.spec().gradient_from_result) {
    CHECK(inputs.size() == 1, op.name());
    auto map = out.map;
    map.inputs = {out.map.output, out.map.output};
    map.output = out.map.inputs[0];
    out.gradient_from_result = term::bind(from_result(), map);
  }
  out.partial_inputs = partial_inputs(out.meaning, inputs.size());
  out.flops =
      op.spec().flops(op.raw(), inputs).value_or(term::count_operations(out.meaning, out.map));
  return out;
}

struct Key {
  Op op;
  std::vector<Shape> inputs;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    Hash h = key.op.hash();
    for (const auto& shape : key.inputs) {
      for (auto size : shape) h = hash_combine(h, static_cast<Hash>(size));
      h = mix(h);
    }
    return h;
  }
};

}  // namespace

const Signature& signature(const Op& op, std::span<const Shape> inputs) {
  static std::mutex mutex;
  static std::unordered_map<Key, std::unique_ptr<const Signature>, KeyHash> table;
  Key key{op, {inputs.begin(), inputs.end()}};
  {
    const std::scoped_lock lock(mutex);
    if (const auto at = table.find(key); at != table.end()) return *at->second;
  }
  auto made = std::make_unique<const Signature>(make_signature(op, inputs));
  const std::scoped_lock lock(mutex);
  return *table.try_emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace tandem::ops
