// Laws of ordered numbers. relu is written with a condition, [0 < x] x, and conditions are 0 or 1.
// Expressions defined by cases can then be compared case by case: relu(x) x = relu(x)^2,
// relu(tanh(x)) = tanh(relu(x)), relu of a matrix that is mostly 0.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "verify/algebra.h"

namespace tandem::verify {

namespace {

bool has_bound(const Domain& domain) {
  return std::ranges::any_of(domain.ranges, [](const auto& r) { return r.bound; });
}

bool is_free(const Linear& e, const Domain& domain) {
  return std::ranges::none_of(e.parts, [&](const auto& part) {
    const auto* r = domain.find(part.first);
    return r != nullptr && r->bound;
  });
}

bool is_condition(const Atom& atom) {
  return atom.kind == Atom::AtomKind::kLess || atom.kind == Atom::AtomKind::kEqual;
}

// One factor of a term, alone: an equation or an inequality of indices, or an atom that is 0 or 1.
using Condition = ScalarTerm;

// Returns a condition that the term stands under and that mentions no index that the term binds.
std::optional<Condition> find_condition(const ScalarTerm& term) {
  Condition out;
  for (const auto& e : term.domain.zeros) {
    if (!is_free(e, term.domain)) continue;
    out.domain.zeros.push_back(e);
    return out;
  }
  for (const auto& e : term.domain.guards) {
    if (!is_free(e, term.domain)) continue;
    out.domain.guards.push_back(e);
    return out;
  }
  for (const auto& atom : term.atoms) {
    if (!is_condition(atom)) continue;
    out.atoms = {atom};
    const bool free = std::ranges::none_of(
        term.domain.ranges, [&](const auto& r) { return r.bound && mentions(out, r.var); });
    if (free) return out;
    out.atoms.clear();
  }
  return std::nullopt;
}

bool is_same_equation(const Linear& a, const Linear& b) {
  Linear sum = a;
  sum.add(b);
  return a == b || sum == Linear{};
}

// Removes the condition from the term. Returns false if the term does not stand under it.
bool remove_condition(ScalarTerm& term, const Condition& condition) {
  if (!condition.domain.zeros.empty()) {
    return std::erase_if(term.domain.zeros, [&](const Linear& e) {
             return is_same_equation(e, condition.domain.zeros[0]);
           }) > 0;
  }
  if (!condition.domain.guards.empty()) {
    return std::erase(term.domain.guards, condition.domain.guards[0]) > 0;
  }
  const auto key = make_atom_key(condition.atoms[0]);
  return std::erase_if(term.atoms, [&](const Atom& atom) {
           return is_condition(atom) && make_atom_key(atom) == key;
         }) > 0;
}

Atom assume_condition(const Atom& atom, const Condition& condition, bool holds) {
  Atom out = atom;
  for (auto& argument : out.arguments) {
    Sum terms;
    for (auto& term : argument) {
      if (!remove_condition(term, condition) || holds) terms.push_back(std::move(term));
    }
    argument = std::move(terms);
  }
  return out;
}

// Returns whether the function is defined for every number.
bool is_total(term::Function f) { return f != term::Function::kLog && f != term::Function::kSqrt; }

bool is_positive(const Atom& atom) {
  if (atom.kind != Atom::AtomKind::kFunction) return false;
  const auto f = static_cast<term::Function>(atom.id);
  return f == term::Function::kSigmoid || f == term::Function::kExp;
}

bool is_tanh(const Atom& atom) {
  return atom.kind == Atom::AtomKind::kFunction &&
         static_cast<term::Function>(atom.id) == term::Function::kTanh;
}

// Scales the coefficients to integers without a common factor: 2/3 x + 4/3 y -> x + 2 y.
void scale_to_integers(Sum& sum) {
  std::int64_t divisor = 0;
  std::int64_t multiple = 1;
  for (const auto& term : sum) {
    const auto n = to_fraction(term.coefficient);
    if (!n || multiple > (std::int64_t{1} << 40U)) return;
    divisor = std::gcd(divisor, n->numerator);
    multiple = std::lcm(multiple, n->denominator);
  }
  if (divisor == 0) return;
  const auto by = term::Numbers<Field>::from_index(multiple) *
                  term::Numbers<Field>::from_index(divisor).inverse();
  for (auto& term : sum) term.coefficient = term.coefficient * by;
}

// Drops positive factors from a product and replaces tanh by its argument. The sign stays.
void drop_positive_factors(ScalarTerm& term) {
  if (has_bound(term.domain)) {
    if (std::ranges::all_of(term.atoms, is_positive) && term.domain.zeros.empty() &&
        term.domain.guards.empty()) {
      std::erase_if(term.domain.ranges, [](const VarRange& r) { return r.bound; });
      term.atoms.clear();
    }
    return;
  }
  std::erase_if(term.atoms, is_positive);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t a = 0; a < term.atoms.size() && !changed; ++a) {
      if (!is_tanh(term.atoms[a])) continue;
      const auto& argument = term.atoms[a].arguments[0];
      if (argument.size() != 1 || !is_plain(argument[0].domain)) continue;
      const auto inner = argument[0];
      term.coefficient = term.coefficient * inner.coefficient;
      term.atoms.erase(term.atoms.begin() + static_cast<std::ptrdiff_t>(a));
      term.atoms.insert(term.atoms.end(), inner.atoms.begin(), inner.atoms.end());
      changed = true;
    }
  }
}

}  // namespace

std::optional<Fraction> to_fraction(Field value) {
  constexpr auto kMost = std::int64_t{1} << 20U;
  // Euclid's algorithm keeps r = s * value (mod p) for every remainder r, until one is small.
  std::pair<std::int64_t, std::int64_t> r = {static_cast<std::int64_t>(Field::kPrime),
                                             static_cast<std::int64_t>(value.value())};
  std::pair<std::int64_t, std::int64_t> s = {0, 1};
  while (r.second >= kMost) {
    const auto quotient = r.first / r.second;
    r = {r.second, r.first - quotient * r.second};
    s = {s.second, s.first - quotient * s.second};
  }
  if (s.second == 0 || std::abs(s.second) >= kMost) return std::nullopt;
  return s.second > 0 ? Fraction{r.second, s.second} : Fraction{-r.second, -s.second};
}

Key make_atom_key(const Atom& atom) {
  ScalarTerm alone;
  alone.atoms.push_back(atom);
  return make_key(alone, true).key;
}

bool is_never_negative(const Atom& atom) {
  if (atom.kind != Atom::AtomKind::kFunction) return is_condition(atom);
  const auto f = static_cast<term::Function>(atom.id);
  using term::Function;
  return is_positive(atom) || f == Function::kRelu || f == Function::kAbs || f == Function::kSqrt;
}

std::optional<Sum> split_by_cases(const Atom& atom) {
  if (atom.kind == Atom::AtomKind::kFunction && !is_total(static_cast<term::Function>(atom.id))) {
    return std::nullopt;
  }
  for (const auto& argument : atom.arguments) {
    for (const auto& term : argument) {
      const auto condition = find_condition(term);
      if (!condition) continue;
      const auto otherwise = assume_condition(atom, *condition, false);
      Sum out(3);
      out[0] = *condition;
      out[0].atoms.push_back(assume_condition(atom, *condition, true));
      out[1].atoms.push_back(otherwise);
      out[2] = *condition;
      out[2].atoms.push_back(otherwise);
      out[2].coefficient = term::Numbers<Field>::from_index(-1);
      return out;
    }
  }
  return std::nullopt;
}

std::optional<Sum> as_only_choice(const Atom& maximum) {
  const auto& over = maximum.domain;
  const bool plain = over.guards.empty() && over.zeros.empty() && over.ranges.size() == 1 &&
                     over.ranges[0].bound && maximum.arguments.size() == 1 &&
                     maximum.arguments[0].size() == 1;
  if (!plain || !is_never_negative(maximum.arguments[0])) return std::nullopt;
  auto term = maximum.arguments[0][0];
  const auto& index = over.ranges[0];
  const bool is_one = std::ranges::any_of(term.domain.zeros, [&](const Linear& e) {
    return e.coefficient(index.var) != 0 && is_free(e, term.domain);
  });
  if (!is_one) return std::nullopt;
  if (auto* known = term.domain.find(index.var)) {
    known->bound = true;
    known->range = {std::max(known->range.begin, index.range.begin),
                    std::min(known->range.end, index.range.end)};
  } else {
    term.domain.ranges.push_back(index);
  }
  return Sum{std::move(term)};
}

void drop_repeated_conditions(std::vector<Atom>& atoms) {
  std::vector<Key> seen;
  std::erase_if(atoms, [&](const Atom& atom) {
    if (!is_condition(atom)) return false;
    auto key = make_atom_key(atom);
    if (std::ranges::find(seen, key) != seen.end()) return true;
    seen.push_back(std::move(key));
    return false;
  });
}

Sum Algebra::as_step(const Sum& argument) {
  ScalarTerm step;
  step.atoms.push_back({.kind = Atom::AtomKind::kLess, .arguments = {Sum{}, argument}});
  return multiply({step}, argument);
}

// Writes a < b as 0 < b - a, without factors that do not change the sign.
std::optional<Sum> Algebra::simplify_sign(Atom& atom) {
  auto difference = atom.arguments[1];
  const auto less = negate(atom.arguments[0]);
  difference.insert(difference.end(), less.begin(), less.end());
  difference = normalize(difference);
  // tanh alone has the sign of its argument.
  while (difference.size() == 1 && difference[0].atoms.size() == 1 &&
         difference[0].coefficient == Field(1) && is_plain(difference[0].domain) &&
         is_tanh(difference[0].atoms[0])) {
    const auto argument = difference[0].atoms[0].arguments[0];
    difference = argument;
  }
  if (difference.size() == 1) drop_positive_factors(difference[0]);
  scale_to_integers(difference);
  if (const auto number = to_number(difference)) {
    if (const auto n = to_fraction(*number))
      return make_constant_sum(Field(n->numerator > 0 ? 1 : 0));
  }
  atom.arguments = {Sum{}, std::move(difference)};
  return split_by_cases(atom);
}

// Narrows the range of each index of `guard` by the ranges of the others: i - j >= 0 with j in [2,
// 5) gives i >= 2. Returns whether a range changed.
bool Algebra::tighten(const Linear& guard, Domain& domain) const {
  bool changed = false;
  for (const auto& [v, n] : guard.parts) {
    const auto all = compute_range(guard, domain);
    const auto r = compute_range(v, domain);
    // The guard's largest value without this index.
    const auto most = all.end - 1 - n * (n > 0 ? r.end - 1 : r.begin);
    auto tight = r;
    if (n > 0) tight.begin = std::max(r.begin, -floor_div(most, n));
    if (n < 0) tight.end = std::min(r.end, floor_div(most, -n) + 1);
    if (tight == r) continue;
    changed = true;
    if (auto* known = domain.find(v)) {
      known->range = tight;
    } else {
      domain.ranges.push_back({v, tight, false});
    }
  }
  return changed;
}

}  // namespace tandem::verify
