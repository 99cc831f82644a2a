// Recognizes sums of squares, which are not negative: products of equal factors, squares of sums
// over an index, and squares of sums that were multiplied out.
#include <algorithm>
#include <cmath>

#include "verify/algebra.h"

namespace tandem::verify {

namespace {

constexpr std::size_t kMostOfSquare = 16;  // limit on terms
constexpr std::size_t kMostSigned = 4;     // limit on roots for which all signs are tried

// Removes two equal atoms x x with equal indices. Returns whether there were two.
bool drop_equal_pair(std::vector<Atom>& atoms) {
  std::vector<Key> seen;
  for (std::size_t a = 0; a < atoms.size(); ++a) {
    auto key = make_atom_key(atoms[a]);
    const auto at = std::ranges::find(seen, key) - seen.begin();
    if (at < std::ssize(seen)) {
      atoms.erase(atoms.begin() + static_cast<std::ptrdiff_t>(a));
      atoms.erase(atoms.begin() + at);
      return true;
    }
    seen.push_back(std::move(key));
  }
  return false;
}

bool mentions(const Atom& atom, IndexVar v) {
  ScalarTerm alone;
  alone.atoms.push_back(atom);
  return mentions(alone, v);
}

// Returns the sorted keys of the atoms that mention `v`, with `v` renamed to `name`.
std::vector<Key> list_factor_keys(const std::vector<Atom>& atoms, IndexVar v, IndexVar name) {
  std::vector<Key> out;
  for (const auto& atom : atoms) {
    if (!mentions(atom, v)) continue;
    ScalarTerm alone;
    alone.atoms.push_back(atom);
    substitute(alone, v, Linear::of(name));
    out.push_back(make_key(alone, true).key);
  }
  std::ranges::sort(out);
  return out;
}

// Removes a square of a sum: sum_v sum_w f(v) f(w) is the square of sum_v f(v). Calls visit(range
// of v) before. Returns whether there was such a square.
template <class Visit>
bool drop_squared_sum(ScalarTerm& term, Visit&& visit) {
  const auto& ranges = term.domain.ranges;
  const auto in_conditions = [&](IndexVar v) {
    const auto has = [&](const Linear& e) { return e.coefficient(v) != 0; };
    return std::ranges::any_of(term.domain.guards, has) ||
           std::ranges::any_of(term.domain.zeros, has);
  };
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    for (std::size_t j = i + 1; j < ranges.size(); ++j) {
      const auto v = ranges[i].var;
      const auto w = ranges[j].var;
      const bool is_equal = ranges[i].bound && ranges[j].bound &&
                            ranges[i].range == ranges[j].range && !in_conditions(v) &&
                            !in_conditions(w);
      if (!is_equal || std::ranges::any_of(term.atoms, [&](const Atom& atom) {
            return mentions(atom, v) && mentions(atom, w);
          })) {
        continue;
      }
      if (list_factor_keys(term.atoms, v, v) != list_factor_keys(term.atoms, w, v)) continue;
      visit(ranges[i]);
      std::erase_if(term.atoms,
                    [&](const Atom& atom) { return mentions(atom, v) || mentions(atom, w); });
      std::erase_if(term.domain.ranges,
                    [&](const VarRange& r) { return r.var == v || r.var == w; });
      return true;
    }
  }
  return false;
}

std::optional<std::int64_t> find_integer_root(std::int64_t n) {
  const auto root = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(n))));
  return n >= 0 && root * root == n ? std::optional(root) : std::nullopt;
}

// Parts f and g of one term sum_k g(k) f(k)^2, with at most one k.
struct SquareRoot {
  ScalarTerm term;           // f, with coefficient 1
  std::vector<Atom> weight;  // g
  std::optional<VarRange> shared;
};

std::optional<SquareRoot> find_root(ScalarTerm term) {
  if (!term.domain.guards.empty() || !term.domain.zeros.empty()) return std::nullopt;
  SquareRoot out;
  const auto keep = [&](const VarRange& range) {
    for (const auto& atom : term.atoms) {
      if (mentions(atom, range.var)) out.term.atoms.push_back(atom);
    }
    out.term.domain.ranges.push_back(range);
  };
  while (drop_squared_sum(term, keep)) {
  }
  while (!term.atoms.empty()) {
    auto atom = std::move(term.atoms.back());
    term.atoms.pop_back();
    const auto key = make_atom_key(atom);
    const auto equal = std::ranges::find_if(
        term.atoms, [&](const Atom& other) { return make_atom_key(other) == key; });
    if (equal != term.atoms.end()) {
      term.atoms.erase(equal);
      out.term.atoms.push_back(std::move(atom));
    } else if (is_never_negative(atom)) {
      out.weight.push_back(std::move(atom));
    } else {
      return std::nullopt;
    }
  }
  for (const auto& range : term.domain.ranges) {
    if (!range.bound) {
      out.term.domain.ranges.push_back(range);
    } else if (out.shared) {
      return std::nullopt;
    } else {
      out.shared = range;
    }
  }
  return out;
}

void rename_shared(SquareRoot& root, IndexVar name) {
  if (!root.shared) return;
  const auto by = Linear::of(name);
  substitute(root.term, root.shared->var, by);
  ScalarTerm factor;
  factor.atoms = std::move(root.weight);
  substitute(factor, root.shared->var, by);
  root.weight = std::move(factor.atoms);
}

Key make_atoms_key(const std::vector<Atom>& atoms) {
  ScalarTerm alone;
  alone.atoms = atoms;
  return make_key(alone, true).key;
}

}  // namespace

// Judges each term: it must be a product of squares and of factors that are not negative.
bool is_never_negative(const Sum& sum) {
  return std::ranges::all_of(sum, [](ScalarTerm term) {
    const auto n = to_fraction(term.coefficient);
    if (!n || n->numerator < 0) return false;
    // Squared sums go first, since they need all their factors.
    while (drop_squared_sum(term, [](const VarRange&) {})) {
    }
    std::erase_if(term.atoms, [](const Atom& atom) { return is_never_negative(atom); });
    while (drop_equal_pair(term.atoms)) {
    }
    return term.atoms.empty();
  });
}

// Finds f from the terms that are squares, and compares its square with the whole sum.
bool Algebra::is_square(const Sum& sum) {
  if (squares_ || sum.size() < 2 || sum.size() > kMostOfSquare) return false;
  Sum roots;
  std::optional<SquareRoot> first;
  Field unit(1);
  IndexVar name = 0;
  for (const auto& term : sum) {
    auto root = find_root(term);
    if (!root) continue;
    if (!first) {
      unit = term.coefficient;
      if (root->shared) name = create_index(extents_[root->shared->var]);
    }
    rename_shared(*root, name);
    if (!first) first = root;
    const auto ratio = to_fraction(term.coefficient * unit.inverse());
    const auto p = ratio ? find_integer_root(ratio->numerator) : std::nullopt;
    const auto q = ratio ? find_integer_root(ratio->denominator) : std::nullopt;
    const bool matches = root->shared.has_value() == first->shared.has_value() &&
                         (!root->shared || root->shared->range == first->shared->range) &&
                         make_atoms_key(root->weight) == make_atoms_key(first->weight);
    if (!p || !q || !matches) return false;
    root->term.coefficient =
        term::Numbers<Field>::from_index(*p) * term::Numbers<Field>::from_index(*q).inverse();
    roots.push_back(std::move(root->term));
  }
  const auto n = first ? to_fraction(unit) : std::nullopt;
  if (!n || n->numerator <= 0 || roots.size() < 2) return false;
  ScalarTerm factor{.coefficient = unit, .atoms = first->weight};
  if (first->shared) factor.domain.ranges.push_back({name, first->shared->range, false});
  const auto scopes = scope_.size();
  const auto wanted = make_key(sum);
  squares_ = true;
  bool equal = false;
  try {
    // The first root is taken as positive; each other root may have either sign.
    const auto signs = roots.size() <= kMostSigned ? std::size_t{1} << (roots.size() - 1) : 1;
    for (std::size_t negative = 0; negative < signs && !equal; ++negative) {
      auto signed_roots = roots;
      for (std::size_t r = 1; r < roots.size(); ++r) {
        if (((negative >> (r - 1)) & 1U) == 0) continue;
        signed_roots[r].coefficient =
            signed_roots[r].coefficient * term::Numbers<Field>::from_index(-1);
      }
      auto square = multiply(multiply(signed_roots, rename_bound_indices(signed_roots)), {factor});
      if (first->shared) square = sum_over(square, name);
      equal = make_key(square) == wanted;
    }
  } catch (const NotNormal&) {  // this square has no normal form; the sum may have one
    scope_.resize(scopes);
  }
  squares_ = false;
  return equal;
}

}  // namespace tandem::verify
