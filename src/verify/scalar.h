// Scalar expressions over tensor elements in one form: sums of products over bound indices.
//
//   2 * sum_k { k in [0, 64), y + k - 1 >= 0 } x[y + k - 1] * w[k] * relu(...)
//
// A term is a coefficient, indices that are summed over with their ranges, conditions on indices
// (linear ones that are >= 0 or = 0), and atoms that are multiplied. Coefficients are in the prime
// field, where division is exact. A variable that a term does not bind is free: an index of the
// tensor that is described, or of what stands around the term.
//
// Functions here keep the value. That two expressions are equal is known where their keys are.
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

// 2y + r - 1
struct Linear {
  std::vector<std::pair<IndexVar, std::int64_t>> parts;  // by variable; no coefficient is 0
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
  bool bound = false;  // summed over; else a free variable outside of which the term is 0
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
  enum class Kind : std::uint8_t {
    kRead,      // `id`, a tensor, at `at`; always inside
    kIndex,     // the number at[0]
    kKeep,      // drawn for `id` and `number` at the index `at`
    kFunction,  // `id` of the argument
    kInverse,   // of the argument
    kEqual,     // 1 where the argument is 0, else 0
    kLess,      // 1 where the first argument is less than the second, else 0
    kMax,       // of the argument over the domain, where the second argument, if any, is not 0
  };
  Kind kind = Kind::kRead;
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

// What cannot be brought into this form within the budget.
struct NotNormal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Sum constant_sum(Field value);
// The number that a double stands for: whole ones and their inverses are themselves.
Field field_of(double value);

void substitute(ScalarTerm& term, IndexVar v, const Linear& by);
void substitute(Sum& sum, IndexVar v, const Linear& by);
bool mentions(const ScalarTerm& term, IndexVar v);

// Calls visit(linear) on every index expression, the conditions among them.
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

// Whole numbers that say all about an expression but the names of bound indices, the order of
// factors and that of summands. Without ranges those are left out, so that terms are found which
// differ in ranges alone.
using Key = std::vector<std::int64_t>;
struct Keyed {
  Key key;
  std::vector<IndexVar> order;  // of the bound indices in the key
};
Keyed key_of(const ScalarTerm& term, bool with_ranges);
// Of the terms and their coefficients.
Key key_of(const Sum& sum);

}  // namespace tandem::verify
