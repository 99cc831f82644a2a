#include "verify/size_facts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace tandem::verify {

namespace {

// An instance at which both sides type-check.
struct Typed {
  TypedSide source;
  TypedSide target;
  std::vector<std::optional<std::int64_t>> symbols;  // values of integer symbols
};

const TensorType& type_at(const Typed& instance, PlaceInRule place) {
  return (place.in_target ? instance.target : instance.source).nodes[place.node].type;
}

std::optional<std::int64_t> evaluate_measure(const Measure& q, const Typed& instance) {
  if (q.kind == Measure::MeasureKind::kNumber) return q.number;
  if (q.kind == Measure::MeasureKind::kSymbol)
    return instance.symbols[static_cast<std::size_t>(q.number)];
  const auto& shape = type_at(instance, q.place).shape;
  if (q.kind == Measure::MeasureKind::kRank) return static_cast<std::int64_t>(shape.rank());
  const auto dim =
      q.at_symbol ? instance.symbols[static_cast<std::size_t>(q.number)] : std::optional(q.number);
  if (!dim || *dim < 0 || static_cast<std::size_t>(*dim) >= shape.rank()) return std::nullopt;
  const auto d = static_cast<std::size_t>(*dim);
  return shape.sizes[d];
}

std::vector<PlaceInRule> list_places(const rewrite::Rule& rule) {
  std::vector<PlaceInRule> out;
  out.reserve(rule.source.nodes.size() + rule.target.nodes.size());
  for (rewrite::PatternId i = 0; i < rule.source.nodes.size(); ++i) out.push_back({false, i});
  for (rewrite::PatternId i = 0; i < rule.target.nodes.size(); ++i) out.push_back({true, i});
  return out;
}

std::vector<Measure> list_measures(const rewrite::Rule& rule, std::size_t highest_rank) {
  const auto symbols = static_cast<std::int64_t>(rule.symbols.size());
  std::vector<Measure> out;
  for (auto place : list_places(rule)) {
    out.push_back({.kind = Measure::MeasureKind::kRank, .place = place});
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(highest_rank); ++d) {
      out.push_back({.kind = Measure::MeasureKind::kDim, .place = place, .number = d});
    }
    for (std::int64_t s = 0; s < symbols; ++s) {
      out.push_back(
          {.kind = Measure::MeasureKind::kDim, .place = place, .number = s, .at_symbol = true});
    }
  }
  for (std::int64_t s = 0; s < symbols; ++s)
    out.push_back({.kind = Measure::MeasureKind::kSymbol, .number = s});
  return out;
}

// Returns the values by instance, or nullopt if an instance has none.
std::optional<std::vector<std::int64_t>> evaluate_at_instances(const Measure& q,
                                                               std::span<const Typed> instances) {
  std::vector<std::int64_t> out;
  out.reserve(instances.size());
  for (const auto& instance : instances) {
    const auto value = evaluate_measure(q, instance);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

void add_equal_shapes(const rewrite::Rule& rule, std::span<const Typed> instances,
                      SizeFacts& facts) {
  std::vector<PlaceInRule> distinct;  // one node of each class
  for (auto place : list_places(rule)) {
    const auto same = std::ranges::find_if(distinct, [&](PlaceInRule other) {
      return std::ranges::all_of(instances, [&](const Typed& i) {
        return type_at(i, other).shape.sizes == type_at(i, place).shape.sizes;
      });
    });
    if (same != distinct.end()) {
      facts.same_shape.emplace_back(*same, place);
    } else {
      distinct.push_back(place);
    }
  }
}

std::size_t find_highest_rank(std::span<const Typed> instances) {
  std::size_t out = 0;
  for (const auto& instance : instances) {
    for (const auto& node : instance.source.nodes) out = std::max(out, node.type.shape.rank());
    for (const auto& node : instance.target.nodes) out = std::max(out, node.type.shape.rank());
  }
  return out;
}

std::vector<Typed> type_instances(const rewrite::Rule& rule, std::span<const Instance> instances) {
  std::vector<Typed> out;
  for (const auto& instance : instances) {
    auto source = type_side(rule.source, instance);
    auto target = type_side(rule.target, instance);
    if (!source || !target) continue;
    Typed next{std::move(*source), std::move(*target), {}};
    for (const auto& value : instance.symbols) {
      const auto* number = value ? std::get_if<std::int64_t>(&*value) : nullptr;
      next.symbols.push_back(number != nullptr ? std::optional(*number) : std::nullopt);
    }
    out.push_back(std::move(next));
  }
  return out;
}

}  // namespace

SizeFacts find_size_facts(const rewrite::Rule& rule, std::span<const Instance> given) {
  SizeFacts facts;
  const auto instances = type_instances(rule, given);
  if (instances.size() < kFewestInstances) return facts;
  std::map<std::vector<std::int64_t>, Measure> first;  // first measure with these values
  for (const auto& q : list_measures(rule, find_highest_rank(instances))) {
    const auto values = evaluate_at_instances(q, instances);
    if (!values) continue;
    const auto [least, largest] = std::ranges::minmax(*values);
    const bool fixed = least == largest;
    if (q.kind == Measure::MeasureKind::kSymbol) {
      const auto size = first.find(*values);
      if (!fixed && size != first.end()) facts.equal.emplace_back(q, size->second);
      continue;
    }
    const Measure itself{.kind = Measure::MeasureKind::kNumber, .number = least};
    const auto [known, fresh] = first.emplace(*values, fixed ? itself : q);
    if (known->second != q) facts.equal.emplace_back(q, known->second);
    if (fresh && !fixed && q.kind == Measure::MeasureKind::kRank)
      facts.at_least.emplace_back(q, least);
  }
  add_equal_shapes(rule, instances, facts);
  return facts;
}

SizeFacts find_size_facts(const rewrite::Rule& rule, const Patterns& patterns) {
  std::vector<Instance> instances;
  const auto keep = [&](std::optional<Instance> instance) {
    if (instance) instances.push_back(std::move(*instance));
  };
  for (const auto& pattern : patterns.all) {
    keep(pattern.base);
    std::vector<std::int64_t> steps(pattern.moves.size());
    for (auto& step : steps) {
      step = 1;
      keep(apply_moves(rule, pattern, steps));
      step = 0;
    }
    for (Hash seed : {1, 2}) keep(find_generic_instance(rule, pattern, seed));
  }
  return find_size_facts(rule, instances);
}

}  // namespace tandem::verify
