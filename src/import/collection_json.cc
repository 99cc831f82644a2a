#include "import/collection_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "import/collection_conditions.h"
#include "import/collection_rule.h"
#include "ops/registry.h"
#include "rewrite/renumbering.h"
#include "rewrite/rule_text.h"

namespace tandem::import {

using rewrite::Expression;
using rewrite::for_each_rule;
using rewrite::parse_rule;
using rewrite::PatternNode;
using rewrite::Rule;
using rewrite::Side;

namespace {

constexpr std::size_t kMaxNodesInText = 1000;  // a shared subpattern is written at each use

// Returns whether `side`, written as text, is short enough to be read again.
bool is_short(const Side& side) {
  std::vector<std::size_t> sizes(side.nodes.size());
  std::size_t total = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = 1;
    for (auto input : side.nodes[i].inputs) {
      sizes[i] = std::min(sizes[i] + sizes[input], kMaxNodesInText + 1);
    }
  }
  for (auto output : side.outputs) total += sizes[output];
  return total <= kMaxNodesInText;
}

// Returns whether operator `spec` shards, replicates or joins tensors.
bool is_parallel(const ops::OpSpec& spec) {
  return spec.role == ops::Role::kParallel || spec.role == ops::Role::kJoin;
}

// Makes names unique, of characters that a rule's name may have.
class UniqueRuleNames {
 public:
  std::string make_unique_name(const std::string& wanted, std::size_t number) {
    std::string name;
    for (char c : wanted) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
      name += plain ? c : '-';
    }
    constexpr std::size_t kLongest = 100;
    name.resize(std::min(name.size(), kLongest));
    if (name.empty()) name = fmt::format("rule-{}", number);
    auto out = name;
    while (!used_.insert(out).second) out = fmt::format("{}-{}", name, number++);
    return out;
  }

 private:
  std::set<std::string> used_;
};

// Returns how dimensions are counted if `text` does not state it: replicas first if it has any
// parallelization operator.
Dimensions detect_dimensions(std::string_view text) {
  for (const auto* word : {"\"PM_PARALLEL_D", "\"OP_PARTITION\"", "\"OP_REPLICATE\"",
                           "\"OP_COMBINE\"", "\"OP_REDUCE\""}) {
    if (text.find(word) != std::string_view::npos) return Dimensions::kReplicasFirst;
  }
  return Dimensions::kPlain;
}

// Returns the rule with variables numbered by first use, shape conditions merged and choices
// sorted. Returns nullopt if its text is too long or too deep.
std::optional<Rule> canonicalize(const Rule& rule) {
  if (!is_short(rule.source) || !is_short(rule.target)) return std::nullopt;
  Rule named = rule;
  named.name = "r";
  try {
    auto out = parse_rule(to_text(named))[0];
    merge_same_shapes(out);
    std::ranges::sort(out.choices);
    return out;
  } catch (const UserError&) {
    return std::nullopt;  // too deep
  }
}

void sort_conditions(Rule& rule) {
  std::ranges::sort(rule.conditions, {},
                    [&](const Expression& condition) { return to_text(rule, condition); });
}

// Returns whether the rules are equal, without writing them as text. Rules may have equal texts and
// still differ here, such as by literals 2 and 2.0.
bool are_structurally_equal(const Rule& a, const Rule& b) {
  const auto merged = [](const Rule& rule) {
    auto out = renumber_rule(rule);
    merge_same_shapes(out);
    return out;
  };
  return are_equal_up_to_order(merged(a), merged(b));
}

// Converts `rule` to the collection's form. Throws Lacking unless importing the result gives the
// same rule, conditions included.
CollectionRule convert_losslessly(const Rule& rule, Dimensions dimensions) {
  if (!is_short(rule.source) || !is_short(rule.target)) throw Lacking("is too long");
  auto out = to_collection_rule(rule, dimensions);
  const auto read = to_rule(out, dimensions, rule.name);
  if (are_structurally_equal(rule, read)) return out;
  auto wanted = canonicalize(rule);
  auto back = canonicalize(read);
  if (!wanted || !back) throw Lacking("is too long");
  if (back->tensors.size() == wanted->tensors.size() &&
      back->symbols.size() == wanted->symbols.size()) {
    back->tensors = wanted->tensors;
    back->symbols = wanted->symbols;
  }
  sort_conditions(*wanted);
  sort_conditions(*back);
  if (*back == *wanted) return out;
  for (const auto& condition : wanted->conditions) {
    if (std::ranges::find(back->conditions, condition) != back->conditions.end()) continue;
    throw Lacking(fmt::format("a collection cannot express '{}'", to_text(*wanted, condition)));
  }
  throw Lacking(fmt::format("would be read back as '{}'", to_text(*back)));
}

}  // namespace

bool is_collection_json(std::string_view text, std::string_view path) {
  const auto inner = trim(text);
  return path.ends_with(".json") || inner.starts_with('{') || inner.starts_with('[');
}

void for_each_imported_rule(std::string_view text, const std::string& source,
                            const std::function<void(Imported)>& visit) {
  const auto shown = detect_dimensions(text);
  UniqueRuleNames names;
  std::size_t number = 0;
  for_each_collection_rule(text, source,
                           [&](const CollectionRule& rule, std::optional<Dimensions> said) {
                             Imported out;
                             out.name = names.make_unique_name(rule.name, ++number);
                             try {
                               out.rule = to_rule(rule, said.value_or(shown), out.name);
                               if (!is_short(out.rule->source) || !is_short(out.rule->target)) {
                                 out.rule.reset();
                                 out.lacking = "is too long";
                               }
                             } catch (const Lacking& e) {
                               out.lacking = e.what();
                             }
                             visit(std::move(out));
                           });
}

Collection import_collection(std::string_view text, const std::string& source) {
  Collection out;
  for_each_imported_rule(text, source, [&](Imported rule) {
    if (rule.rule) {
      out.rules.push_back(std::move(*rule.rule));
    } else {
      out.lacking.push_back(std::move(rule));
    }
  });
  return out;
}

bool has_parallel_operator(const Rule& rule) {
  const auto any = [](const Side& side) {
    return std::ranges::any_of(side.nodes, [](const PatternNode& node) {
      return !node.is_variable() && is_parallel(*node.spec);
    });
  };
  return any(rule.source) || any(rule.target);
}

bool has_parallel_rule(std::string_view text, const std::string& source) {
  const bool mentioned = std::ranges::any_of(ops::all_ops(), [&](const ops::OpSpec* spec) {
    return is_parallel(*spec) && text.find(spec->name) != std::string_view::npos;
  });
  bool found = false;
  if (mentioned) {
    for_each_rule(text, source, [&](const Rule& rule) {
      found = has_parallel_operator(rule);
      return !found;
    });
  }
  return found;
}

CollectionWriter::CollectionWriter(bool parallel, std::function<void(std::string_view)> write)
    : dimensions_(parallel ? Dimensions::kReplicasFirst : Dimensions::kPlain),
      write_(std::move(write)) {
  write_(fmt::format(R"({{"_t":"RuleCollection","dimensions":"{}","rule":[)", name(dimensions_)));
}

std::vector<std::optional<std::string>> CollectionWriter::add(std::span<const Rule> rules,
                                                              unsigned threads) {
  std::vector<std::string> texts(rules.size());
  std::vector<std::optional<std::string>> lacking(rules.size());
  parallel_for(rules.size(), threads, [&](std::size_t i) {
    try {
      texts[i] = to_json(convert_losslessly(rules[i], dimensions_));
    } catch (const Lacking& e) {
      lacking[i] = e.what();
    }
  });
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (lacking[i]) continue;
    write_(rules_ == 0 ? "\n" : ",\n");
    write_(texts[i]);
    ++rules_;
  }
  return lacking;
}

void CollectionWriter::end() { write_("\n]}\n"); }

Exported export_collection(std::span<const Rule> rules) {
  Exported out;
  CollectionWriter writer(std::ranges::any_of(rules, has_parallel_operator),
                          [&](std::string_view text) { out.text += text; });
  const auto lacking = writer.add(rules);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!lacking[i]) continue;
    out.lacking.push_back({.name = rules[i].name, .rule = std::nullopt, .lacking = *lacking[i]});
  }
  writer.end();
  out.rules = writer.rule_count();
  return out;
}

std::string to_canonical_text(const Rule& rule) {
  auto out = canonicalize(rule);
  if (!out) return {};
  for (std::size_t i = 0; i < out->tensors.size(); ++i) out->tensors[i] = fmt::format("t{}", i);
  for (std::size_t i = 0; i < out->symbols.size(); ++i) out->symbols[i] = fmt::format("s{}", i);
  sort_conditions(*out);
  return to_text(*out);
}

}  // namespace tandem::import
