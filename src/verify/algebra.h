// The laws by which scalar expressions (scalar.h) are brought into one form: conditions become
// ranges, empty terms vanish, indices fixed by an equation are replaced, products are distributed
// over sums, what an opaque function sees is cut where its form changes, and terms that differ in
// one range are joined to the largest ranges. Each step keeps the value.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "verify/scalar.h"

namespace tandem::verify {

// Which laws hold beside those of a field, of sums and of ranges.
enum class Laws : std::uint8_t {
  kOfFields,
  // Those of ordered numbers, too: relu(x) is [0 < x] x, a function of what a condition decides is
  // one of two functions, and what conditions say of an index together counts as said of it alone.
  // Forms become longer.
  kOfOrder,
};

class Algebra {
 public:
  explicit Algebra(Laws laws = Laws::kOfFields) : laws_(laws) {}

  // From now on.
  void use(Laws laws) { laws_ = laws; }

  // A new index in [0, extent).
  IndexVar fresh(std::int64_t extent);
  [[nodiscard]] std::int64_t extent(IndexVar v) const { return extents_[v]; }

  // Index expressions with what split() replaced.
  [[nodiscard]] Linear resolved(Linear e) const;
  // The digits of `e` in a mixed radix: units are [12, 4, 1] for (a b:3 c:4). Splits variables that
  // cross a digit's boundary, everywhere. Throws NotNormal where that cannot be done.
  std::vector<Linear> digits(const Linear& e, std::span<const std::int64_t> units);

  Sum normal(const Sum& sum);
  Sum times(const Sum& a, const Sum& b);
  // Summed over the index, which the result no longer mentions.
  Sum over(const Sum& sum, IndexVar v);
  // The maximum over the indices where the guard, if any, is not 0.
  Sum maximum(const Sum& sum, std::span<const IndexVar> over, const Sum* guard);
  // With new names for all that is bound.
  Sum renamed(const Sum& sum);

 private:
  using Scope = std::vector<const Domain*>;

  void simplify(ScalarTerm term, Sum& out);
  // False where the domain is empty.
  bool simplify_domain(ScalarTerm& term);
  bool simplify_zeros(ScalarTerm& term, bool& changed);
  bool fix_free_index(const Linear& zero, Domain& domain) const;
  void drop_minor_digits(Linear& e, const Domain& domain) const;
  std::optional<Linear> split_digits(Linear& e, const Domain& domain) const;
  bool simplify_guards(ScalarTerm& term, bool& changed);
  void drop_unused(ScalarTerm& term);
  void join_digits(ScalarTerm& term);
  void shift(ScalarTerm& term) const;
  // What becomes of one atom: it stays, or a sum takes its place.
  std::optional<Sum> simplify_atom(Atom& atom, const ScalarTerm& term);
  std::optional<Sum> simplify_maximum(Atom& atom);
  std::optional<Sum> simplify_less(Atom& atom);
  // algebra_squares.cc: is it c sum_k g(k) f(k)^2, with c and g not negative and f a sum?
  bool is_square(const Sum& sum);
  // algebra_order.cc: laws of ordered numbers.
  Sum as_step(const Sum& argument);  // relu of it: itself where it is above 0
  std::optional<Sum> simplify_sign(Atom& atom);
  bool tighten(const Linear& guard, Domain& domain) const;
  // Cuts the term in two where an argument's form changes.
  bool cut(const ScalarTerm& term, Sum& out);
  Sum joined(Sum terms);
  void join_group(std::vector<IndexVar> lines, Sum& terms) const;
  void apply_splits(ScalarTerm& term);
  void rename(ScalarTerm& term);
  void bind(ScalarTerm& term, IndexVar v);
  void split(IndexVar v, std::int64_t unit);
  std::vector<IndexVar> leaves(IndexVar v) const;

  [[nodiscard]] Range range_of(IndexVar v, const Domain& innermost) const;
  [[nodiscard]] Range range_of(const Linear& e, const Domain& innermost) const;
  void count_work();

  Laws laws_;
  std::vector<std::int64_t> extents_;
  std::map<IndexVar, Linear> splits_;
  Scope scope_;
  std::size_t work_ = 0;
  bool squares_ = false;  // is a square being made, to compare with?
};

// Rounded down, also below 0.
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}

// The index expression that a sum is, if it is one.
std::optional<Linear> linear_of(const Sum& sum);
// The number that a sum is, if it is one.
std::optional<Field> number_of(const Sum& sum);
bool is_plain(const Domain& domain);  // says nothing
Sum negated(Sum sum);

// A function, or a condition, of what a condition decides: one where it holds and one where not.
// None where no term of an argument stands under a condition of its own.
std::optional<Sum> by_cases(const Atom& atom);

// A maximum of what is 0 but at one index, and negative nowhere, as its sum: max_i [i = j]
// abs(x[j]) is abs(x[j]). None where it is no such maximum.
std::optional<Sum> as_only_choice(const Atom& maximum);

// n / d, both below 2^20: so small that hardly any other number of the field is one by chance.
struct Fraction {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
};

std::optional<Fraction> fraction_of(Field value);
Key key_of_atom(const Atom& atom);

// algebra_squares.cc: is it at least 0 wherever it is defined, by what it is made of?
bool is_never_negative(const Sum& sum);
bool is_never_negative(const Atom& atom);
// Conditions are 0 or 1: their squares are themselves.
void drop_repeated_conditions(std::vector<Atom>& atoms);

}  // namespace tandem::verify
