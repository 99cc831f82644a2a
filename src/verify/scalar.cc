#include "verify/scalar.h"

#include <algorithm>
#include <cmath>

namespace tandem::verify {

std::int64_t Linear::coefficient(IndexVar v) const {
  for (const auto& [var, n] : parts) {
    if (var == v) return n;
  }
  return 0;
}

void Linear::add(const Linear& other, std::int64_t times) {
  constant += times * other.constant;
  for (const auto& [v, n] : other.parts) {
    const auto at = std::ranges::lower_bound(parts, v, {}, [](const auto& p) { return p.first; });
    if (at == parts.end() || at->first != v) {
      if (n * times != 0) parts.insert(at, {v, n * times});
    } else if ((at->second += n * times) == 0) {
      parts.erase(at);
    }
  }
}

void Linear::substitute(IndexVar v, const Linear& by) {
  const auto n = coefficient(v);
  if (n == 0) return;
  std::erase_if(parts, [&](const auto& p) { return p.first == v; });
  add(by, n);
}

const VarRange* Domain::find(IndexVar v) const {
  const auto at = std::ranges::find(ranges, v, &VarRange::var);
  return at == ranges.end() ? nullptr : &*at;
}

VarRange* Domain::find(IndexVar v) {
  const auto at = std::ranges::find(ranges, v, &VarRange::var);
  return at == ranges.end() ? nullptr : &*at;
}

Sum make_constant_sum(Field value) {
  if (value == Field(0)) return {};
  return {ScalarTerm{.coefficient = value}};
}

Field to_field(double value) {
  constexpr double kLargest = 1 << 20;
  const double inverse = std::round(1 / value);
  if (value != std::floor(value) && std::abs(inverse) <= kLargest && 1 / inverse == value) {
    return term::Numbers<Field>::from(inverse).inverse();
  }
  return term::Numbers<Field>::from(value);
}

namespace {

// Substitutes `by` for `v`. A free range of `v` becomes conditions on `by`.
void substitute(Domain& domain, IndexVar v, const Linear& by) {
  for_each_linear(domain, [&](Linear& e) { e.substitute(v, by); });
  const auto* known = domain.find(v);
  if (known == nullptr) return;
  const auto range = known->range;
  std::erase_if(domain.ranges, [&](const VarRange& r) { return r.var == v; });
  Linear above = by;
  above.constant -= range.begin;
  Linear below{{}, range.end - 1};
  below.add(by, -1);
  domain.guards.push_back(std::move(above));
  domain.guards.push_back(std::move(below));
}

}  // namespace

void substitute(ScalarTerm& term, IndexVar v, const Linear& by) {
  substitute(term.domain, v, by);
  for (auto& atom : term.atoms) {
    substitute(atom.domain, v, by);
    for (auto& e : atom.at) e.substitute(v, by);
    for (auto& argument : atom.arguments) substitute(argument, v, by);
  }
}

void substitute(Sum& sum, IndexVar v, const Linear& by) {
  for (auto& term : sum) substitute(term, v, by);
}

namespace {

bool mentions(const Domain& domain, IndexVar v) {
  const auto has = [&](const Linear& e) { return e.coefficient(v) != 0; };
  const auto* range = domain.find(v);
  return std::ranges::any_of(domain.guards, has) || std::ranges::any_of(domain.zeros, has) ||
         (range != nullptr && !range->bound);
}

}  // namespace

bool mentions(const ScalarTerm& term, IndexVar v) {
  if (mentions(term.domain, v)) return true;
  return std::ranges::any_of(term.atoms, [&](const Atom& atom) {
    if (mentions(atom.domain, v)) return true;
    for (const auto& e : atom.at) {
      if (e.coefficient(v) != 0) return true;
    }
    return std::ranges::any_of(atom.arguments, [&](const Sum& sum) {
      return std::ranges::any_of(sum, [&](const ScalarTerm& t) { return mentions(t, v); });
    });
  });
}

}  // namespace tandem::verify
