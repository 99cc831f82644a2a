// Equations as rules in text form: variables ?x, ?y, ..., constants with symbols for their sizes.
// With a rule go the types and values that it was found for, and other ones are derived from these:
// the sizes that index text ties together change together.
#pragma once

#include <optional>
#include <vector>

#include "generate/formulas.h"
#include "rewrite/rule.h"

namespace tandem::generate {

// What the variables and symbols of a rule stand for.
struct Assignment {
  std::vector<TensorType> tensors;
  std::vector<std::int64_t> below;  // of indices; 0 for others
  std::vector<std::optional<rewrite::Value>> symbols;
};

struct MadeRule {
  rewrite::Rule rule;
  Assignment found;
};

// Sizes of constants of the target are symbols that nothing binds yet: see bind_open_symbols.
MadeRule make_rule(const Formulas& formulas, const std::vector<FormulaId>& source,
                   const std::vector<FormulaId>& target,
                   const std::map<TypeId, std::int64_t>& index_types);

enum class Verdict : std::uint8_t {
  kHolds,
  kFails,    // both sides are legal and of one type, and differ
  kNotLegal  // or of other types, or a condition does not hold
};
// Evaluates both sides on random values.
Verdict judge(const rewrite::Rule& rule, const Assignment& assignment, KernelCache& kernels);
// Are both sides legal, and of one type? Conditions do not count.
bool is_legal(const rewrite::Rule& rule, const Assignment& assignment);

// Assignments of other sizes, most of them legal; the one found first. Some change a single size
// of those that are tied together: for operators that stretch a size of 1.
std::vector<Assignment> other_sizes(const MadeRule& made);
// The one found, and each size that is tied together twice and three times as large.
std::vector<Assignment> larger_sizes(const MadeRule& made);

// Gives symbols that only the target has the sizes that they always are: dim(?x, 1), or another
// symbol. False where there are none.
bool bind_open_symbols(MadeRule& made);

}  // namespace tandem::generate
