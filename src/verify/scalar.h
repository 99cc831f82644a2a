// Scalar expressions over tensor elements in one form: sums of products over bound indices.
//
//   2 * sum_k { k in [0, 64), y + k - 1 >= 0 } x[y + k - 1] * w[k] * relu(...)
//
// A term has a coefficient, bound indices with their ranges, conditions on indices, and atoms that
// are multiplied. Bound indices are summed over. Conditions are linear expressions that are >= 0 or
// = 0. Coefficients are in the prime field, where division is exact. A variable that a term does
// not bind is free: an index of the tensor that is described, or of an enclosing term.
//
// Functions here preserve the value. Expressions with equal keys are equal.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "term/field.h"

namespace tandem::verify {

using term::Field;
using IndexVar = std::uint32_t;

// A linear index expression: 2y + r - 1.
struct Linear {
  std::vector<std::pair<IndexVar, std::int64_t>> parts;  // sorted by variable; no coefficient is 0
  std::int64_t constant = 0;

  bool operator==(const Linear&) const = default;
  [[nodiscard]] std::int64_t coefficient(IndexVar v) const;
  void add(const Linear& other, std::int64_t times = 1);
  void substitute(IndexVar v, const Linear& by);
  static Linear of(IndexVar v) { return {{{v, 1}}, 0}; }
};

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const Range&) const = default;
};

struct VarRange {
  IndexVar var = 0;
  Range range;
  bool bound = false;  // summed over; else free, and the term is 0 outside the range
};

struct Domain {
  std::vector<VarRange> ranges;
  std::vector<Linear> guards;  // each is >= 0
  std::vector<Linear> zeros;   // each is = 0

  [[nodiscard]] const VarRange* find(IndexVar v) const;
  VarRange* find(IndexVar v);
};

struct ScalarTerm;
using Sum = std::vector<ScalarTerm>;

struct Atom {
  enum class AtomKind : std::uint8_t {
    kRead,      // element `at` of tensor `id`; always inside
    kIndex,     // the index at[0] as a number
    kKeep,      // 1 or 0, drawn for `id` and `number` at the index `at`
    kFunction,  // function `id` of the argument
    kInverse,   // inverse of the argument
    kEqual,     // 1 if the argument is 0, else 0
    kLess,      // 1 if the first argument is less than the second, else 0
    kMax,       // maximum of the first argument over the domain, where the second, if any, is not 0
  };
  AtomKind kind = AtomKind::kRead;
  std::int64_t id = 0;
  double number = 0;
  std::vector<Linear> at = {};
  std::vector<Sum> arguments = {};
  Domain domain = {};
};

struct ScalarTerm {
  Field coefficient = Field(1);
  Domain domain = {};
  std::vector<Atom> atoms = {};
};

// Thrown for an expression that cannot be brought into this form within the budget.
struct NotNormal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Sum make_constant_sum(Field value);
// Returns the field element of a number. Integers and their inverses stay what they are.
Field to_field(double value);

void substitute(ScalarTerm& term, IndexVar v, const Linear& by);
void substitute(Sum& sum, IndexVar v, const Linear& by);
bool mentions(const ScalarTerm& term, IndexVar v);

// Calls visit(linear) on every index expression, conditions included.
template <class Visit>
void for_each_linear(Domain& domain, Visit&& visit) {
  for (auto& e : domain.guards) visit(e);
  for (auto& e : domain.zeros) visit(e);
}
template <class Visit>
void for_each_linear(ScalarTerm& term, Visit&& visit) {
  for_each_linear(term.domain, visit);
  for (auto& atom : term.atoms) {
    for_each_linear(atom.domain, visit);
    for (auto& e : atom.at) visit(e);
    for (auto& argument : atom.arguments) {
      for (auto& inner : argument) for_each_linear(inner, visit);
    }
  }
}

// Integers that determine an expression except for the names of its bound indices and the order of
// its factors and summands. Keys without ranges find terms that differ in ranges alone.
using Key = std::vector<std::int64_t>;
struct Keyed {
  Key key;
  std::vector<IndexVar> order;  // order of the bound indices in the key
};
Keyed make_key(const ScalarTerm& term, bool with_ranges);
// Returns the key of the terms and their coefficients.
Key make_key(const Sum& sum);

}  // namespace tandem::verify
