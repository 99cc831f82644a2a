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

class Algebra {
 public:
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
  bool simplify_guards(ScalarTerm& term, bool& changed);
  void drop_unused(ScalarTerm& term);
  void join_digits(ScalarTerm& term);
  void shift(ScalarTerm& term) const;
  // What becomes of one atom: it stays, or a sum takes its place.
  std::optional<Sum> simplify_atom(Atom& atom, const ScalarTerm& term);
  std::optional<Sum> simplify_maximum(Atom& atom);
  // Cuts the term in two where an argument's form changes.
  bool cut(const ScalarTerm& term, Sum& out);
  Sum joined(Sum terms);
  void apply_splits(ScalarTerm& term);
  void rename(ScalarTerm& term);
  void split(IndexVar v, std::int64_t unit);
  std::vector<IndexVar> leaves(IndexVar v) const;

  [[nodiscard]] Range range_of(IndexVar v, const Domain& innermost) const;
  [[nodiscard]] Range range_of(const Linear& e, const Domain& innermost) const;
  void count_work();

  std::vector<std::int64_t> extents_;
  std::map<IndexVar, Linear> splits_;
  Scope scope_;
  std::size_t work_ = 0;
};

// The index expression that a sum is, if it is one.
std::optional<Linear> linear_of(const Sum& sum);

}  // namespace tandem::verify
