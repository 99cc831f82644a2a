// For tests: checks whether a rule is true at sizes that nobody chose. Types are drawn at random,
// larger ones than a proof begins with, until the source fits. Both sides are then built as graphs
// and run by the graph's own interpreters. Nothing here is shared with the prover: this file does
// not include its patterns, small sizes, normal forms or refuting evaluation.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "graph/sequential.h"
#include "graph/virtual_devices.h"
#include "ops/registry.h"
#include "rewrite/rule.h"
#include "rewrite/rule_text.h"

namespace tandem::verify {

// The types of a rule's variables and the values of its symbols.
struct Occurrence {
  std::vector<TensorType> tensors;
  std::vector<std::optional<rewrite::Value>> symbols;

  [[nodiscard]] bool holds(const rewrite::Rule& rule) const {
    return std::ranges::all_of(rule.conditions, [&](const rewrite::Expression& condition) {
      return rewrite::holds(condition, {pointers(), symbols});
    });
  }
  [[nodiscard]] std::optional<rewrite::Value> value(const rewrite::Expression& e) const {
    return rewrite::evaluate(e, {pointers(), symbols});
  }

 private:
  [[nodiscard]] std::vector<const TensorType*> pointers() const {
    std::vector<const TensorType*> out;
    for (const auto& type : tensors) out.push_back(&type);
    return out;
  }
};

inline std::string to_text(const rewrite::Rule& rule, const Occurrence& at) {
  std::vector<std::string> parts;
  for (std::size_t v = 0; v < at.tensors.size(); ++v) {
    parts.push_back(fmt::format("?{} {}", rule.tensors[v], tandem::to_text(at.tensors[v].shape)));
  }
  for (std::size_t s = 0; s < at.symbols.size(); ++s) {
    if (!at.symbols[s]) continue;
    parts.push_back(fmt::format("?{} = {}", rule.symbols[s], rewrite::to_text(*at.symbols[s])));
  }
  return join(parts, ", ");
}

// Returns a side as a graph whose inputs are the variables, named by their numbers. Returns nullopt
// if it is not legal, or has a tensor too large to be run here.
inline std::optional<graph::Graph> make_graph(const rewrite::Side& side, const Occurrence& at,
                                              bool* too_large = nullptr) {
  graph::GraphBuilder builder("side");
  std::vector<graph::NodeId> ids;
  try {
    for (const auto& node : side.nodes) {
      if (node.is_variable()) {
        const auto& type = at.tensors[node.variable];
        const std::int64_t below = is_integer(type.dtype) ? 2 : 0;
        ids.push_back(
            builder.input(fmt::format("v{}", node.variable), type.shape, type.dtype, below));
        continue;
      }
      ops::AttributeList attributes;
      for (std::size_t a = 0; a < node.attributes.size(); ++a) {
        const auto value = at.value(node.attributes[a]);
        if (!value) return std::nullopt;
        attributes.emplace_back(node.spec->attributes[a].first, rewrite::to_text(*value));
      }
      std::vector<graph::NodeId> inputs;
      for (auto input : node.inputs) inputs.push_back(ids[input]);
      ids.push_back(builder.add(ops::parse_op(*node.spec, attributes), inputs));
      constexpr std::int64_t kMostElements = 20'000;
      if (builder.node(ids.back()).type.shape.sizes.count() > kMostElements) {
        if (too_large != nullptr) *too_large = true;
        return std::nullopt;
      }
    }
    std::vector<graph::NodeId> outputs;
    for (auto output : side.outputs) outputs.push_back(ids[output]);
    return builder.finish(std::move(outputs));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Draws occurrences of a rule.
class Occurrences {
 public:
  Occurrences(const rewrite::Rule& rule, std::uint64_t seed) : rule_(rule), random_(seed) {
    for (const auto* side : {&rule.source, &rule.target}) {
      for (const auto& node : side->nodes) {
        if (node.is_variable()) continue;
        parallel_ = parallel_ || node.spec->role == ops::Role::kParallel ||
                    node.spec->role == ops::Role::kJoin;
        for (std::size_t a = 0; a < node.attributes.size(); ++a) {
          rewrite::for_each_binder(node.attributes[a], [&](std::uint16_t symbol) {
            usual_[symbol] = {node.attributes[a].operation == rewrite::Operation::kList
                                  ? rewrite::Value(std::int64_t{1})
                                  : rewrite::get_default_attributes(*node.spec)[a].literal,
                              node.spec};
          });
        }
      }
    }
  }

  // Returns an occurrence at which the source fits and the conditions hold, or nullopt after
  // `tries` tries.
  std::optional<Occurrence> draw(int tries) {
    for (int i = 0; i < tries; ++i) {
      auto at = types();
      if (at.holds(rule_) && make_graph(rule_.source, at)) return at;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_parallel() const { return parallel_; }

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  bool chance(std::int64_t one_in) { return below(one_in) == 0; }
  template <class T, std::size_t n>
  T any(const std::array<T, n>& of) {
    return of[static_cast<std::size_t>(below(n))];
  }

  Occurrence types() {
    constexpr std::int64_t kLargest = 9;
    // Uses few sizes, so that sizes that must be equal often are.
    sizes_ = {1 + below(kLargest), 1 + below(kLargest), 1 + below(kLargest)};
    if (parallel_) sizes_ = {4, 6, any<std::int64_t, 3>({2, 8, 12})};
    const auto rank = any<std::int64_t, 6>({2, 2, 2, 3, 4, 1});
    Occurrence out;
    for (std::size_t v = 0; v < rule_.tensors.size(); ++v) out.tensors.push_back(type(rank));
    for (std::size_t s = 0; s < rule_.symbols.size(); ++s) {
      out.symbols.emplace_back(symbol(static_cast<std::uint16_t>(s), rank));
    }
    return out;
  }

  TensorType type(std::int64_t rank) {
    if (chance(5)) rank = below(5);
    Shape sizes;
    for (std::int64_t d = 0; d < rank; ++d) sizes.push_back(chance(12) ? 1 : any(sizes_));
    ParallelShape shape(sizes);
    if (parallel_) {
      for (std::size_t d = 0; d < sizes.rank(); ++d) {
        if (sizes[d] % 2 == 0 && chance(3)) shape.degrees[d] = 2;
      }
      if (chance(3)) shape.replicas = 2;
      if (chance(4)) shape.partial = 2;
    }
    return {shape, chance(12) ? DType::kInt64 : DType::kFp32};
  }

  rewrite::Value symbol(std::uint16_t s, std::int64_t rank) {
    const auto known = usual_.find(s);
    if (known == usual_.end()) return parallel_ ? std::int64_t{2} : below(6) - 1;
    const auto& [usual, spec] = known->second;
    if (std::holds_alternative<std::string>(usual)) {
      const auto& text = std::get<std::string>(usual);
      return text == "none" ? std::string(any<const char*, 2>({"none", "relu"})) : text;
    }
    if (std::holds_alternative<double>(usual)) return any<double, 3>({0.5, 2.0, 1e-5});
    if (std::holds_alternative<std::vector<std::int64_t>>(usual)) return list(spec, rank);
    const bool degree = spec->role == ops::Role::kParallel && chance(2);
    return degree ? std::int64_t{2} : any<std::int64_t, 8>({0, 0, 1, 1, 2, 3, -1, any(sizes_)});
  }

  std::vector<std::int64_t> list(const ops::OpSpec* spec, std::int64_t rank) {
    std::vector<std::int64_t> out;
    if (spec == &ops::kTranspose) {
      for (std::int64_t d = 0; d < rank; ++d) out.push_back(d);
      std::ranges::shuffle(out, random_);
      return out;
    }
    for (int i = 0; i < 2; ++i) out.push_back(any<std::int64_t, 4>({0, 1, 1, 2}));
    return out;
  }

  const rewrite::Rule& rule_;
  std::mt19937_64 random_;
  bool parallel_ = false;
  std::array<std::int64_t, 3> sizes_ = {};
  std::map<std::uint16_t, std::pair<rewrite::Value, const ops::OpSpec*>> usual_;
};

namespace trial {

using graph::Graph;
using graph::NodeId;

// Returns values of the variables by name and element, so that both sides get the same ones.
template <class T>
graph::SourceValues<T> operands(const Graph& graph, std::uint64_t seed) {
  auto constants = graph::make_feed_values<T>(graph, 0);
  return [&graph, seed, constants](NodeId id) {
    const auto& node = graph.node(id);
    if (!graph::is_input(node)) return constants(id);
    const bool whole = seed % 2 == 0;
    const auto negative = seed % 3;  // one less than the negative ones of four
    Dense<T> out(node.type.shape.sizes);
    for (std::size_t e = 0; e < out.data.size(); ++e) {
      const auto h = hash_combine(hash_combine(hash_text(node.name), seed), e);
      if (is_integer(node.type.dtype)) {
        constexpr Hash kIndices = 6;  // some of them beyond small tables
        out.data[e] = term::Numbers<T>::from_index(static_cast<std::int64_t>(h % kIndices));
      } else if constexpr (std::is_same_v<T, double>) {
        const double sign = (h >> 40U) % 4 <= negative ? -1 : 1;
        const double size =
            whole ? static_cast<double>(h % 5) : static_cast<double>(h >> 20U) * 0x1p-43;
        out.data[e] = sign * size;
      } else {
        out.data[e] = T(h);
      }
    }
    return out;
  };
}

// Returns how outputs differ by more than rounding, or "" if they do not. Ignores elements that are
// not finite in the source, and graphs whose values grow too large.
inline std::string difference(const Graph& source, const Graph& target, std::uint64_t seed) {
  const auto a = graph::run_forward<double>(source, operands<double>(source, seed));
  const auto b = graph::run_forward<double>(target, operands<double>(target, seed));
  double largest = 1;
  for (const auto* values : {&a, &b}) {
    for (const auto& tensor : *values) {
      for (auto x : tensor.data) {
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
      }
    }
  }
  constexpr double kTooLarge = 1e9;
  if (largest > kTooLarge) return "";
  for (std::size_t o = 0; o < source.outputs().size(); ++o) {
    const auto& x = a[source.outputs()[o].index()];
    const auto& y = b[target.outputs()[o].index()];
    for (std::size_t e = 0; e < x.data.size(); ++e) {
      if (!std::isfinite(x.data[e])) continue;
      const auto allowed = 1e-7 * (1 + std::abs(x.data[e])) + 1e-11 * largest;
      if (std::isfinite(y.data[e]) && std::abs(x.data[e] - y.data[e]) <= allowed) continue;
      return fmt::format("element {} of output {} is {} and {}", e, o, x.data[e], y.data[e]);
    }
  }
  return "";
}

// Returns what is wrong with the shards of the outputs, or "" if they hold the graph's values.
inline std::string wrong_shards(const Graph& pcg, std::uint64_t seed) {
  using term::Field;
  const auto sharded = graph::run_sharded_forward<Field>(pcg, operands<Field>(pcg, seed));
  const auto whole = graph::erase_parallelism(pcg);
  const auto values = graph::run_forward<Field>(whole, operands<Field>(whole, seed));
  for (std::size_t o = 0; o < pcg.outputs().size(); ++o) {
    bool agree = true;
    const auto assembled = graph::assemble(sharded[pcg.outputs()[o].index()], &agree);
    if (!agree) return "replicas differ";
    if (assembled != values[whole.outputs()[o].index()]) return "shards are not what is meant";
  }
  return "";
}

}  // namespace trial

// Whether types are compared, or values alone. A target that is illegal, or of another type than
// the source, is not applied (docs/internals/decisions/0028).
enum class Types : std::uint8_t { kCompared, kOfWholeTensors, kNotCompared };

// Returns why the rule is false there, or "" if `draws` draws of numbers show no difference.
inline std::string why_false(const rewrite::Rule& rule, const Occurrence& at, Types types,
                             int draws, std::uint64_t seed) {
  const auto source = make_graph(rule.source, at);
  if (!source) return "";
  const bool divided = std::ranges::any_of(
      at.tensors, [](const TensorType& type) { return !type.shape.is_undivided(); });
  const bool only_values =
      types == Types::kNotCompared || (types == Types::kOfWholeTensors && divided);
  bool too_large = false;
  const auto target = make_graph(rule.target, at, &too_large);
  if (!target) return only_values || too_large ? "" : "the target does not fit";
  bool parallel = false;
  for (const auto* side : {&*source, &*target}) {
    for (auto id : side->ids()) {
      const auto& node = side->node(id);
      parallel = parallel || !node.type.shape.is_undivided() || graph::is_parallel(node) ||
                 graph::is_join(node);
    }
  }
  for (std::size_t o = 0; o < source->outputs().size(); ++o) {
    const auto& a = source->node(source->outputs()[o]).type;
    const auto& b = target->node(target->outputs()[o]).type;
    if (a != b && only_values) return "";
    if (a != b) return fmt::format("the types are {} and {}", to_text(a.shape), to_text(b.shape));
  }
  const auto of_source = parallel ? graph::erase_parallelism(*source) : *source;
  const auto of_target = parallel ? graph::erase_parallelism(*target) : *target;
  for (int i = 0; i < draws; ++i) {
    const auto drawn = seed + static_cast<std::uint64_t>(i);
    if (auto why = trial::difference(of_source, of_target, drawn); !why.empty()) return why;
    if (!parallel || i > 0) continue;
    for (const auto* side : {&*source, &*target}) {
      if (auto why = trial::wrong_shards(*side, drawn); !why.empty()) return why;
    }
  }
  return "";
}

}  // namespace tandem::verify
