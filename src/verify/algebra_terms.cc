// Simplifies a term: first its conditions, then its atoms. Splits the term if its atoms need it.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "verify/algebra.h"

namespace tandem::verify {

namespace {

// Returns the value as a small integer of either sign, or nullopt.
std::optional<std::int64_t> to_small_integer(Field value) {
  constexpr std::uint64_t kSmall = std::uint64_t{1} << 40U;
  if (value.value() < kSmall) return static_cast<std::int64_t>(value.value());
  if (Field::kPrime - value.value() < kSmall) {
    return -static_cast<std::int64_t>(Field::kPrime - value.value());
  }
  return std::nullopt;
}

Field integer_to_field(std::int64_t n) { return term::Numbers<Field>::from_index(n); }

// Returns whether f(n) is exact if it looks like an integer or the inverse of one. exp(-800) looks
// like 0 but is not.
bool is_exact(term::Function f, std::int64_t n) {
  using term::Function;
  if (f == Function::kRelu || f == Function::kAbs || f == Function::kSqrt) return true;
  return f == Function::kLog ? n == 1 : n == 0;
}

// Returns f(n) for the small integer n that `argument` equals, or nullopt if it is not exact.
std::optional<Sum> apply_to_number(term::Function f, std::optional<Field> argument) {
  const auto n = argument ? to_small_integer(*argument) : std::nullopt;
  if (!n || !is_exact(f, *n)) return std::nullopt;
  const auto value = term::Numbers<double>::apply(f, static_cast<double>(*n));
  const bool is_integer = value == std::floor(value) && std::abs(value) < 0x1p40;
  if (!is_integer && value != 0.5) return std::nullopt;
  return make_constant_sum(to_field(value));
}

// Returns an index expression as a sum of indices: 2 i + 1 -> 2 [i] + 1. Returns nullopt for an
// index alone.
std::optional<Sum> simplify_index(const Linear& e) {
  if (e.constant == 0 && e.parts.size() == 1 && e.parts[0].second == 1) return std::nullopt;
  Sum out = make_constant_sum(integer_to_field(e.constant));
  for (const auto& [v, n] : e.parts) {
    out.push_back({.coefficient = integer_to_field(n),
                   .atoms = {Atom{.kind = Atom::AtomKind::kIndex, .at = {Linear::of(v)}}}});
  }
  return out;
}

// Returns 1 / `argument` for a number or a product: 1 / (2 x y) -> 1/2 (1 / x) (1 / y).
std::optional<Sum> simplify_inverse(const Sum& argument) {
  const auto number = to_number(argument);
  if (number && *number != Field(0)) return make_constant_sum(number->inverse());
  if (argument.size() != 1 || !is_plain(argument[0].domain)) return std::nullopt;
  if (argument[0].coefficient == Field(1) && argument[0].atoms.size() == 1) return std::nullopt;
  ScalarTerm out{.coefficient = argument[0].coefficient.inverse()};
  for (const auto& factor : argument[0].atoms) {
    out.atoms.push_back(
        {.kind = Atom::AtomKind::kInverse, .arguments = {{ScalarTerm{.atoms = {factor}}}}});
  }
  return Sum{out};
}

// Returns the condition `argument` = 0 as a number or as a condition on indices. Otherwise it
// replaces `argument` by its negative if the negative comes first, so that x = y equals y = x.
std::optional<Sum> simplify_equal(Sum& argument) {
  if (const auto number = to_number(argument)) {
    return make_constant_sum(integer_to_field(*number == Field(0) ? 1 : 0));
  }
  if (const auto e = to_linear(argument)) {
    ScalarTerm out;
    out.domain.zeros.push_back(*e);
    return Sum{out};
  }
  auto other = negate(argument);
  if (make_key(other) < make_key(argument)) argument = std::move(other);
  return std::nullopt;
}

}  // namespace

bool is_plain(const Domain& d) { return d.ranges.empty() && d.guards.empty() && d.zeros.empty(); }

std::optional<Field> to_number(const Sum& sum) {
  if (sum.empty()) return Field(0);
  if (sum.size() > 1 || !sum[0].atoms.empty() || !is_plain(sum[0].domain)) return std::nullopt;
  return sum[0].coefficient;
}

Sum negate(Sum sum) {
  for (auto& t : sum) t.coefficient = t.coefficient * integer_to_field(-1);
  return sum;
}

std::optional<Linear> to_linear(const Sum& sum) {
  Linear out;
  for (const auto& term : sum) {
    const auto n = to_small_integer(term.coefficient);
    if (!n || !is_plain(term.domain) || term.atoms.size() > 1) return std::nullopt;
    if (term.atoms.empty()) {
      out.constant += *n;
    } else if (term.atoms[0].kind == Atom::AtomKind::kIndex) {
      out.add(term.atoms[0].at[0], *n);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

void Algebra::simplify(ScalarTerm term, Sum& out) {
  count_work();
  if (term.coefficient == Field(0)) return;
  apply_splits(term);
  if (!simplify_domain(term)) return;
  for (std::size_t a = 0; a < term.atoms.size(); ++a) {
    auto instead = simplify_atom(term.atoms[a], term);
    if (!instead) continue;
    term.atoms.erase(term.atoms.begin() + static_cast<std::ptrdiff_t>(a));
    const auto product = multiply({std::move(term)}, *instead);
    out.insert(out.end(), product.begin(), product.end());
    return;
  }
  if (laws_ == Laws::kOfOrder) drop_repeated_conditions(term.atoms);
  if (split_term(term, out)) return;
  drop_unused(term);
  join_digits(term);
  shift_indices(term);
  out.push_back(std::move(term));
}

bool Algebra::split_term(const ScalarTerm& term, Sum& out) {
  for (const auto& atom : term.atoms) {
    for (const auto& argument : atom.arguments) {
      for (const auto& inner : argument) {
        for (const auto& r : inner.domain.ranges) {
          const auto* of_maximum = atom.domain.find(r.var);
          if (r.bound || (of_maximum != nullptr && of_maximum->bound)) continue;
          const auto all = compute_range(r.var, term.domain);
          const auto at = r.range.begin > all.begin ? r.range.begin : r.range.end;
          if (at <= all.begin || at >= all.end) continue;
          for (const Range part : {Range{all.begin, at}, Range{at, all.end}}) {
            auto copy = term;
            if (auto* known = copy.domain.find(r.var)) {
              known->range = part;
            } else {
              copy.domain.ranges.push_back({r.var, part, false});
            }
            simplify(std::move(copy), out);
          }
          return true;
        }
      }
    }
  }
  return false;
}

std::optional<Sum> Algebra::simplify_maximum(Atom& atom) {
  ScalarTerm inside{.domain = std::move(atom.domain)};
  atom.domain = {};
  inside.atoms.push_back(std::move(atom));
  if (!simplify_domain(inside)) throw NotNormal("a maximum over nothing");
  scope_.push_back(&inside.domain);
  for (auto& argument : inside.atoms[0].arguments) argument = normalize(argument);
  scope_.pop_back();
  std::erase_if(inside.domain.ranges,
                [&](const VarRange& r) { return r.bound && !mentions(inside, r.var); });
  join_digits(inside);
  shift_indices(inside);
  atom = std::move(inside.atoms[0]);
  atom.domain = std::move(inside.domain);
  if (is_plain(atom.domain) && atom.arguments.size() == 1) return atom.arguments[0];
  return as_only_choice(atom);
}

std::optional<Sum> Algebra::simplify_atom(Atom& atom, const ScalarTerm& term) {
  using Kind = Atom::AtomKind;
  if (atom.kind == Kind::kRead || atom.kind == Kind::kKeep) return std::nullopt;
  if (atom.kind == Kind::kIndex) return simplify_index(atom.at[0]);
  scope_.push_back(&term.domain);
  struct Leave {
    Scope& scope;
    ~Leave() { scope.pop_back(); }
  } leave{scope_};
  if (atom.kind == Kind::kMax) return simplify_maximum(atom);
  for (auto& argument : atom.arguments) argument = normalize(argument);
  if (atom.kind == Kind::kFunction) return simplify_function(atom);
  if (atom.kind == Kind::kInverse) return simplify_inverse(atom.arguments[0]);
  if (atom.kind == Kind::kEqual) return simplify_equal(atom.arguments[0]);
  CHECK(atom.kind == Kind::kLess);
  return simplify_less(atom);
}

std::optional<Sum> Algebra::simplify_function(const Atom& atom) {
  const auto f = static_cast<term::Function>(atom.id);
  const auto& argument = atom.arguments[0];
  if (auto value = apply_to_number(f, to_number(argument))) return value;
  if (f == term::Function::kRelu && (is_never_negative(argument) || is_square(argument))) {
    return argument;
  }
  if (laws_ != Laws::kOfOrder) return std::nullopt;
  return f == term::Function::kRelu ? as_step(argument) : split_by_cases(atom);
}

std::optional<Sum> Algebra::simplify_less(Atom& atom) {
  const auto a = to_linear(atom.arguments[0]);
  const auto b = to_linear(atom.arguments[1]);
  if (!a || !b) return laws_ == Laws::kOfOrder ? simplify_sign(atom) : std::nullopt;
  ScalarTerm out;
  Linear guard = *b;
  guard.add(*a, -1);
  guard.constant -= 1;
  out.domain.guards.push_back(std::move(guard));
  return Sum{out};
}

}  // namespace tandem::verify
