// Equations as rules in text form: variables ?x, ?y, ..., and constants with symbols for their
// sizes. Each rule comes with the types and values for which it was found. Assignments of other
// sizes are derived from these: sizes that index text ties together change together.
#pragma once

#include <optional>
#include <vector>

#include "generate/formulas.h"
#include "rewrite/rule.h"

namespace tandem::generate {

// The values of a rule's variables and symbols.
struct Assignment {
  std::vector<TensorType> tensors;
  std::vector<std::int64_t> below;  // exclusive bounds of indices; 0 for others
  std::vector<std::optional<rewrite::Value>> symbols;
};

struct GeneratedRule {
  rewrite::Rule rule;
  Assignment found;
};

// Returns the rule from `source` to `target`. Sizes of the target's constants become symbols that
// nothing binds yet: see bind_open_symbols.
GeneratedRule make_rule(const Formulas& formulas, const std::vector<FormulaId>& source,
                        const std::vector<FormulaId>& target,
                        const std::map<TypeId, std::int64_t>& index_types);

enum class Verdict : std::uint8_t {
  kHolds,
  kFails,    // both sides are legal and have one type, but differ
  kNotLegal  // a side is not legal, types differ, or a condition fails
};
// Evaluates both sides on random values.
Verdict judge(const rewrite::Rule& rule, const Assignment& assignment, KernelCache& kernels);
// Returns whether both sides are legal and have one type, regardless of conditions.
bool is_legal(const rewrite::Rule& rule, const Assignment& assignment);

// Returns assignments of other sizes, the found one first. Most of them are legal. Some change only
// one of several tied sizes, for operators that broadcast a size of 1.
std::vector<Assignment> list_other_sizes(const GeneratedRule& made);
// Returns the found assignment, then assignments in which tied sizes are two or three times as
// large: each class of tied sizes alone, and all of them.
std::vector<Assignment> list_larger_sizes(const GeneratedRule& made);

// Replaces each symbol that only the target has by an expression that always equals it, such as
// dim(?x, 1) or another symbol. Returns false if there is none.
bool bind_open_symbols(GeneratedRule& made);

}  // namespace tandem::generate
