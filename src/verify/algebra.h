// Rewrites scalar expressions (scalar.h) to a normal form. Conditions become ranges, empty terms
// vanish, and indices fixed by an equation are replaced. Products are distributed over sums. A term
// is split where the argument of an opaque function changes form, and terms that differ in one
// range are joined. Each step preserves the value.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "verify/scalar.h"

namespace tandem::verify {

// Sets of laws. Each includes the laws of fields, sums and ranges.
enum class Laws : std::uint8_t {
  kOfFields,
  // Includes the laws of ordered numbers: relu(x) is [0 < x] x, and a function of a condition is
  // split into two cases. A condition on several indices bounds each of them alone. Forms become
  // longer.
  kOfOrder,
};

class Algebra {
 public:
  explicit Algebra(Laws laws = Laws::kOfFields) : laws_(laws) {}

  // Uses `laws` from now on.
  void set_laws(Laws laws) { laws_ = laws; }

  // Returns a new index in [0, extent).
  IndexVar create_index(std::int64_t extent);
  [[nodiscard]] std::int64_t extent(IndexVar v) const { return extents_[v]; }

  // Returns `e` with every variable replaced that split() split.
  [[nodiscard]] Linear resolve(Linear e) const;
  // Returns the digits of `e` in a mixed radix: units are [12, 4, 1] for (a b:3 c:4). Splits
  // variables that cross a digit's boundary, everywhere. Throws NotNormal if that is impossible.
  std::vector<Linear> compute_digits(const Linear& e, std::span<const std::int64_t> units);

  // Returns `sum` in normal form.
  Sum normalize(const Sum& sum);
  Sum multiply(const Sum& a, const Sum& b);
  // Sums `sum` over index `v`, which the result no longer mentions.
  Sum sum_over(const Sum& sum, IndexVar v);
  // Takes the maximum of `sum` over those values of the indices `over` at which `guard` is
  // not 0. A null guard admits all.
  Sum take_maximum(const Sum& sum, std::span<const IndexVar> over, const Sum* guard);
  // Returns `sum` with new names for all bound indices.
  Sum rename_bound_indices(const Sum& sum);

 private:
  using Scope = std::vector<const Domain*>;

  void simplify(ScalarTerm term, Sum& out);
  // Simplifies the term's domain. Returns false if the domain is empty.
  bool simplify_domain(ScalarTerm& term);
  bool simplify_zeros(ScalarTerm& term, bool& changed);
  bool fix_free_index(const Linear& zero, Domain& domain) const;
  void drop_minor_digits(Linear& e, const Domain& domain) const;
  std::optional<Linear> split_digits(Linear& e, const Domain& domain) const;
  bool simplify_guards(ScalarTerm& term, bool& changed);
  void drop_unused(ScalarTerm& term);
  void join_digits(ScalarTerm& term);
  void shift_indices(ScalarTerm& term) const;
  // Simplifies one atom. Returns nullopt if the atom stays, or the sum that replaces it.
  std::optional<Sum> simplify_atom(Atom& atom, const ScalarTerm& term);
  std::optional<Sum> simplify_maximum(Atom& atom);
  std::optional<Sum> simplify_function(const Atom& atom);
  std::optional<Sum> simplify_less(Atom& atom);
  // algebra_squares.cc: returns whether `sum` is c sum_k g(k) f(k)^2, where c and g are not
  // negative and f is a sum.
  bool is_square(const Sum& sum);
  // algebra_order.cc: laws of ordered numbers.
  Sum as_step(const Sum& argument);  // relu of `argument`: [0 < x] x
  std::optional<Sum> simplify_sign(Atom& atom);
  bool tighten(const Linear& guard, Domain& domain) const;
  // Splits the term in two where an argument's form changes. Returns whether it did.
  bool split_term(const ScalarTerm& term, Sum& out);
  Sum merge_terms(Sum terms);
  void join_group(std::vector<IndexVar> lines, Sum& terms) const;
  void apply_splits(ScalarTerm& term);
  void rename(ScalarTerm& term);
  void bind(ScalarTerm& term, IndexVar v);
  void split_index(IndexVar v, std::int64_t unit);
  std::vector<IndexVar> list_leaves(IndexVar v) const;

  [[nodiscard]] Range compute_range(IndexVar v, const Domain& innermost) const;
  [[nodiscard]] Range compute_range(const Linear& e, const Domain& innermost) const;
  void count_work();

  Laws laws_;
  std::vector<std::int64_t> extents_;
  std::map<IndexVar, Linear> splits_;
  Scope scope_;
  std::size_t work_ = 0;
  bool squares_ = false;  // whether is_square is building a square to compare with
};

// Divides and rounds down, also below 0.
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}

// Returns the index expression that `sum` equals, or nullopt.
std::optional<Linear> to_linear(const Sum& sum);
// Returns the number that `sum` equals, or nullopt.
std::optional<Field> to_number(const Sum& sum);
bool is_plain(const Domain& domain);  // whether it has no conditions
Sum negate(Sum sum);

// Splits a function or condition on a condition c in one of its arguments: f([c] x) -> [c] f(x) +
// (1 - [c]) f(0). Returns nullopt if no term of an argument stands under a condition of its own.
std::optional<Sum> split_by_cases(const Atom& atom);

// Returns a maximum as a sum, if its body is never negative and is 0 except at one index: max_i [i
// = j] abs(x[j]) -> abs(x[j]). Returns nullopt otherwise.
std::optional<Sum> as_only_choice(const Atom& maximum);

// The fraction n / d, both below 2^20: so small that a random field element is hardly ever one.
struct Fraction {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
};

std::optional<Fraction> to_fraction(Field value);
Key make_atom_key(const Atom& atom);

// algebra_squares.cc: returns whether the value is at least 0 wherever it is defined, judged by its
// form.
bool is_never_negative(const Sum& sum);
bool is_never_negative(const Atom& atom);
// Removes repeated conditions: a condition is 0 or 1, so its square is the condition.
void drop_repeated_conditions(std::vector<Atom>& atoms);

}  // namespace tandem::verify
