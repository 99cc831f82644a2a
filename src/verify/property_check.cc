#include "verify/property_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "graph/feed.h"
#include "graph/virtual_devices.h"
#include "rewrite/rule_text.h"
#include "verify/evaluate.h"
#include "verify/instances.h"
#include "verify/rule_typer.h"
#include "verify/size_facts.h"
#include "verify/symbol_values.h"

namespace tandem::verify {

namespace {

using rewrite::Expression;
using rewrite::Operation;
using rewrite::Rule;
using rewrite::Value;
using term::Field;

// --- One instance --------------------------------------------------------------------------------

using Values = graph::ShardedValues<Field>;

bool is_undivided(const TypedSide& side) {
  return std::ranges::all_of(side.nodes,
                             [](const TypedNode& node) { return node.type.shape.is_undivided(); });
}

enum class Sameness : std::uint8_t { kSame, kSourceOnly, kDifferent };
struct InstanceOutcome {
  Sameness verdict = Sameness::kSame;
  std::string what = {};
};

InstanceOutcome judge_instance(const Rule& rule, const Instance& instance, Hash seed) {
  const auto source = type_side(rule.source, instance);
  const auto target = type_side(rule.target, instance);
  CHECK(source.has_value(), rule.name);
  if (!target) {
    if (!is_undivided(*source)) return {Sameness::kSourceOnly};
    return {Sameness::kDifferent, "the target is not legal"};
  }
  for (std::size_t o = 0; o < rule.source.outputs.size(); ++o) {
    const auto& left = source->nodes[source->outputs[o]].type;
    const auto& right = target->nodes[target->outputs[o]].type;
    if (left == right) continue;
    return {Sameness::kDifferent,
            fmt::format("output {} is {} and {}", o, tandem::to_text(left.shape),
                        tandem::to_text(right.shape))};
  }
  graph::GraphBuilder builder("property");
  std::vector<graph::NodeId> variables;
  variables.reserve(instance.tensors.size());
  constexpr std::int64_t kRowsOfTables = 3;
  for (std::size_t i = 0; i < instance.tensors.size(); ++i) {
    const auto& type = instance.tensors[i];
    variables.push_back(builder.input(rule.tensors[i], type.shape, type.dtype,
                                      is_integer(type.dtype) ? kRowsOfTables : 0));
  }
  const auto left = add_side(builder, *source, variables);
  const auto right = add_side(builder, *target, variables);
  auto outputs = left;
  outputs.insert(outputs.end(), right.begin(), right.end());
  const auto both = builder.finish(std::move(outputs));
  const auto values =
      graph::run_sharded_forward<Field>(both, graph::make_feed_values<Field>(both, seed));
  for (std::size_t o = 0; o < left.size(); ++o) {
    bool agree = true;
    const auto a = graph::assemble(values[left[o].index()]);
    const auto b = graph::assemble(values[right[o].index()], &agree);
    if (!agree) return {Sameness::kDifferent, "replicas of the target differ"};
    const auto at = std::ranges::mismatch(a.data, b.data).in1 - a.data.begin();
    if (static_cast<std::size_t>(at) != a.data.size()) {
      return {Sameness::kDifferent, fmt::format("output {}, element {}: {} and {}", o, at,
                                                a.data[static_cast<std::size_t>(at)].value(),
                                                b.data[static_cast<std::size_t>(at)].value())};
    }
  }
  return {};
}

// --- Ways to shard the operands ------------------------------------------------------------------

// Returns the whole type, and all types with one or two coordinates of the given degree.
std::vector<TensorType> list_sharded_types(const TensorType& whole, std::int64_t degree) {
  std::vector<TensorType> out = {whole};
  const auto coordinates = whole.shape.rank() + 2;
  const auto divide = [&](ParallelShape& shape, std::size_t c) {
    if (c == shape.rank()) {
      shape.replicas *= degree;
    } else if (c > shape.rank()) {
      shape.partial *= degree;
    } else if (shape.sizes[c] % (shape.degrees[c] * degree) == 0) {
      shape.degrees[c] *= degree;
    } else {
      return false;
    }
    return true;
  };
  for (std::size_t c = 0; c < coordinates; ++c) {
    auto one = whole;
    if (!divide(one.shape, c)) continue;
    out.push_back(one);
    for (std::size_t d = 0; d < c; ++d) {
      auto two = one;
      if (divide(two.shape, d)) out.push_back(two);
    }
  }
  return out;
}

// Returns the ways to shard the tensors of `base` by `degree` in which the source fits.
std::vector<Instance> list_sharded_instances(const Rule& rule, const Instance& base,
                                             std::int64_t degree) {
  constexpr std::size_t kMostTries = 1U << 14U;
  std::vector<std::vector<TensorType>> choices;
  choices.reserve(base.tensors.size());
  for (const auto& t : base.tensors) choices.push_back(list_sharded_types(t, degree));
  std::vector<Instance> out;
  Instance current = base;
  RuleTyper typer(rule);
  std::vector<std::size_t> digits(choices.size());
  for (std::size_t tries = 0; tries < kMostTries; ++tries) {
    std::size_t d = 0;
    while (d < digits.size() && ++digits[d] == choices[d].size()) digits[d++] = 0;
    if (d == digits.size()) break;
    for (std::size_t i = 0; i <= d; ++i) current.tensors[i] = choices[i][digits[i]];
    if (typer.occurs(current)) out.push_back(current);
  }
  return out;
}

// --- Attributes that are no numbers --------------------------------------------------------------

void substitute_value(Expression& e, std::uint16_t symbol, const Value& value) {
  if (e.operation == Operation::kSymbol && e.variables[0] == symbol) {
    e.operation = Operation::kLiteral;
    e.literal = value;
    e.variables.clear();
  }
  for (auto& operand : e.operands) substitute_value(operand, symbol, value);
}

// Returns the rule with a value in place of a symbol.
Rule with_value(Rule rule, std::size_t symbol, const Value& value) {
  const auto s = static_cast<std::uint16_t>(symbol);
  for (auto* side : {&rule.source, &rule.target}) {
    for (auto& node : side->nodes) {
      for (auto& attribute : node.attributes) substitute_value(attribute, s, value);
    }
  }
  for (auto& condition : rule.conditions) substitute_value(condition, s, value);
  return rule;
}

// A symbol that is an attribute by itself and no number, with its possible values, the default
// first.
struct Slot {
  std::size_t symbol = 0;
  std::vector<Value> values = {};
};

std::vector<Slot> find_slots(const Rule& rule) {
  std::vector<Slot> out;
  const auto values = find_symbol_values(rule);
  for (std::size_t s = 0; s < values.size(); ++s) {
    if (values[s].empty() || std::holds_alternative<std::int64_t>(values[s].front())) continue;
    for (const auto& node : rule.source.nodes) {
      for (std::size_t a = 0; a < node.attributes.size(); ++a) {
        const auto& e = node.attributes[a];
        if (e.operation != Operation::kSymbol || e.variables[0] != s) continue;
        if (!out.empty() && out.back().symbol == s) continue;
        out.push_back({s, {rewrite::parse_value(node.spec->attributes[a].second)}});
        out.back().values.insert(out.back().values.end(), values[s].begin(), values[s].end());
      }
    }
  }
  return out;
}

// Returns the symbols of degrees of parallelization operators.
std::set<std::uint16_t> find_degree_symbols(const Rule& rule) {
  std::set<std::uint16_t> out;
  for (const auto* side : {&rule.source, &rule.target}) {
    for (const auto& node : side->nodes) {
      if (node.is_variable() || node.spec->role != ops::Role::kParallel) continue;
      for (std::size_t a = 0; a < node.attributes.size(); ++a) {
        const auto& e = node.attributes[a];
        if (node.spec->attributes[a].first != "degree") continue;
        if (e.operation == Operation::kSymbol) out.insert(e.variables[0]);
      }
    }
  }
  return out;
}

// Appends variants of the rule. The search finds equal sizes, equal axes and degrees of 1 first.
// The variants have degrees of 2, two numbers that differ, or one that is 2, such as a number of
// groups.
void add_number_variants(const Rule& rule, std::vector<Rule>& out) {
  const auto degrees = find_degree_symbols(rule);
  auto base = rule;
  for (auto d : degrees) base = with_value(std::move(base), d, std::int64_t{2});
  if (!degrees.empty()) out.push_back(base);
  std::vector<std::uint16_t> numbers;
  const auto values = find_symbol_values(rule);
  for (std::uint16_t s = 0; s < values.size(); ++s) {
    if (values[s].empty() || degrees.contains(s)) continue;
    if (!std::holds_alternative<std::int64_t>(values[s].front())) continue;
    out.push_back(with_value(base, s, std::int64_t{2}));
    for (auto other : numbers) {
      auto next = base;
      next.conditions.push_back(
          {.operation = Operation::kNotEqual,
           .operands = {{.operation = Operation::kSymbol, .variables = {s}},
                        {.operation = Operation::kSymbol, .variables = {other}}}});
      out.push_back(std::move(next));
    }
    numbers.push_back(s);
  }
}

// Returns the rule with strides, paddings, activations and the like put in before sizes are
// searched. The defaults come first, then one other value at a time, then several. A rule without
// such attributes stays as it is.
std::vector<Rule> make_specializations(const Rule& rule, std::size_t most, Hash seed) {
  const auto slots = find_slots(rule);
  std::vector<Rule> out;
  const auto add = [&](auto&& number_of_value) {
    Rule next = rule;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      next = with_value(std::move(next), slots[i].symbol, slots[i].values[number_of_value(i)]);
    }
    out.push_back(std::move(next));
  };
  add([](std::size_t) { return 0; });
  const auto plain = out.front();
  add_number_variants(plain, out);
  if (slots.empty()) return out;
  most += out.size();
  constexpr std::size_t kMostValues = 40;
  for (std::size_t v = 1; out.size() < most && v < kMostValues; ++v) {
    for (std::size_t changed = 0; changed < slots.size(); ++changed) {
      if (v >= slots[changed].values.size()) continue;
      add([&](std::size_t i) { return i == changed ? v : 0; });
    }
  }
  most += slots.size() > 1 ? most / 2 : 0;
  for (Hash h = seed; out.size() < most; ++h) {
    add([&](std::size_t i) {
      return hash_combine(h, i) % std::min<std::size_t>(slots[i].values.size(), 8);
    });
  }
  return out;
}

// --- One property --------------------------------------------------------------------------------

class Check {
 public:
  Check(const Rule& rule, const PropertyLimits& limits)
      : rule_(rule), limits_(limits), random_(limits.seed) {
    out_.name = rule.name;
  }

  PropertyCheck run() {
    struct PropertyVariant {
      Rule rule;
      Patterns patterns;
    };
    std::vector<PropertyVariant> forms;
    out_.complete = true;
    auto rules = make_specializations(rule_, limits_.attribute_values, limits_.seed);
    const auto of_each = std::max<std::size_t>(3, limits_.patterns / rules.size());
    const auto find = [&](Rule rule, std::size_t tries) {
      auto patterns = find_patterns(rule, {.patterns = of_each, .tries = tries});
      // If there are few variants, one that finds nothing may try harder.
      if (patterns.all.empty() && patterns.cut && rules.size() <= 8) {
        patterns = find_patterns(rule, {.patterns = of_each, .tries = 6 * tries});
      }
      if (patterns.cut) out_.complete = false;
      out_.patterns += patterns.all.size();
      if (!patterns.all.empty()) forms.push_back({std::move(rule), std::move(patterns)});
    };
    for (const auto& rule : rules) find(rule, limits_.tries);
    if (forms.empty()) find(std::move(rules.front()), 50 * limits_.tries);
    // Tries the plain instances of all forms first, then sizes and degrees of each form, one form
    // after another.
    for (const auto& [rule, patterns] : forms) {
      for (const auto& pattern : patterns.all) {
        try_instance(rule, pattern.base);
        try_instance(rule, with_degrees_of_one(rule, pattern.base));
      }
    }
    for (std::size_t i = 0; i < of_each; ++i) {
      for (const auto& [rule, patterns] : forms) {
        if (i >= patterns.all.size()) continue;
        try_sizes(rule, patterns.all[i]);
        try_sharded(rule, patterns.all[i].base);
      }
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_enough() const {
    return out_.instances + out_.source_only >= limits_.instances;
  }

  // Returns false if enough is known.
  bool try_instance(const Rule& rule, const Instance& instance) {
    if (!out_.refuted.empty()) return false;
    if (is_enough()) {
      out_.complete = false;
      return false;
    }
    if (!occurs(rule, instance)) return true;
    const auto outcome = judge_instance(rule, instance, limits_.seed + out_.instances);
    ++(outcome.verdict == Sameness::kSourceOnly ? out_.source_only : out_.instances);
    if (outcome.verdict == Sameness::kDifferent) {
      out_.refuted = fmt::format("{}: {}", to_text(rule, instance), outcome.what);
    }
    return out_.refuted.empty();
  }

  // Returns the instance with parallelization operators that change nothing. The equality of the
  // erased sides must hold there.
  static Instance with_degrees_of_one(const Rule& rule, Instance instance) {
    for (auto d : find_degree_symbols(rule)) instance.symbols[d].emplace(std::int64_t{1});
    for (auto& t : instance.tensors) t.shape = ParallelShape(t.shape.sizes);
    return instance;
  }

  void try_sizes(const Rule& rule, const InstancePattern& pattern) {
    const auto every = list_small_instances(rule, pattern, limits_.every_size_to,
                                            limits_.instances_of_pattern, limits_.seed);
    if (every.cut) out_.complete = false;
    const auto random = list_small_instances(rule, pattern, limits_.random_size_to,
                                             limits_.instances_of_pattern / 4, limits_.seed + 1);
    for (const auto* list : {&every.all, &random.all}) {
      for (const auto& instance : *list) {
        if (!try_instance(rule, instance)) return;
        try_instance(rule, with_degrees_of_one(rule, instance));
      }
    }
  }

  void try_sharded(const Rule& rule, const Instance& base) {
    if (!out_.refuted.empty() || is_enough()) return;
    for (std::int64_t degree : {2, 4}) {
      auto all = list_sharded_instances(rule, base, degree);
      std::ranges::shuffle(all, random_);
      all.resize(std::min(all.size(), limits_.divided_instances));
      for (const auto& instance : all) {
        const auto before = out_.instances;
        if (!try_instance(rule, instance)) return;
        out_.divided += out_.instances - before;
      }
    }
  }

  const Rule& rule_;
  const PropertyLimits& limits_;
  PropertyCheck out_;
  std::mt19937_64 random_;
};

}  // namespace

PropertyCheck check_property(const Rule& property, const PropertyLimits& limits) {
  return Check(property, limits).run();
}

std::vector<PropertyCheck> check_properties(std::span<const Rule> properties,
                                            const PropertyLimits& limits) {
  std::vector<PropertyCheck> out(properties.size());
  parallel_for(properties.size(), limits.threads,
               [&](std::size_t i) { out[i] = check_property(properties[i], limits); });
  return out;
}

std::vector<Redundant> find_redundant(std::span<const Rule> properties, Seconds limit) {
  const SmtProver prover(properties);
  const auto is_reverse = [](const Rule& a, const Rule& b) {
    return to_text(a, a.source) == to_text(b, b.target) &&
           to_text(a, a.target) == to_text(b, b.source);
  };
  std::vector<Redundant> out;
  for (const auto& property : properties) {
    std::vector<std::string> excluded = {property.name};
    for (const auto& other : properties) {
      if (is_reverse(property, other)) excluded.push_back(other.name);
    }
    auto answer = prover.prove_without(excluded, property,
                                       find_size_facts(property, find_patterns(property)), limit);
    if (answer.proved) out.push_back({property.name, std::move(answer.used)});
  }
  return out;
}

}  // namespace tandem::verify
