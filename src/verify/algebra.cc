#include "verify/algebra.h"

#include <algorithm>

namespace tandem::verify {

namespace {

constexpr std::size_t kMostWork = 4000;  // limit on simplified terms
constexpr std::size_t kMostTerms = 256;  // limit on the terms of a product

}  // namespace

IndexVar Algebra::create_index(std::int64_t extent) {
  extents_.push_back(extent);
  return static_cast<IndexVar>(extents_.size() - 1);
}

void Algebra::count_work() {
  if (++work_ > kMostWork) throw NotNormal("takes too many steps");
}

// --- Ranges -------------------------------------------------------------------------------------

Range Algebra::compute_range(IndexVar v, const Domain& innermost) const {
  if (const auto* r = innermost.find(v)) return r->range;
  for (std::size_t s = scope_.size(); s-- > 0;) {
    if (const auto* r = scope_[s]->find(v)) return r->range;
  }
  return {0, extents_[v]};
}

// Returns the range of the values of `e`, the end not included.
Range Algebra::compute_range(const Linear& e, const Domain& innermost) const {
  Range out{e.constant, e.constant + 1};
  for (const auto& [v, n] : e.parts) {
    const auto r = compute_range(v, innermost);
    out.begin += n * (n > 0 ? r.begin : r.end - 1);
    out.end += n * (n > 0 ? r.end - 1 : r.begin);
  }
  return out;
}

// --- Digits -------------------------------------------------------------------------------------

Linear Algebra::resolve(Linear e) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [v, n] : e.parts) {
      if (const auto var = v; extents_[var] == 1) {
        e.substitute(var, {});
        changed = true;
        break;
      }
      const auto at = splits_.find(v);
      if (at == splits_.end()) continue;
      const auto [var, by] = *at;
      e.substitute(var, by);
      changed = true;
      break;
    }
  }
  return e;
}

void Algebra::split_index(IndexVar v, std::int64_t unit) {
  const auto major = create_index(extents_[v] / unit);
  const auto minor = create_index(unit);
  Linear by;
  by.add(Linear::of(major), unit);
  by.add(Linear::of(minor));
  splits_[v] = by;
}

std::vector<IndexVar> Algebra::list_leaves(IndexVar v) const {
  std::vector<IndexVar> out;
  for (const auto& [part, unused] : resolve(Linear::of(v)).parts) out.push_back(part);
  return out;
}

std::vector<Linear> Algebra::compute_digits(const Linear& e, std::span<const std::int64_t> units) {
  Linear rest = resolve(e);
  std::vector<Linear> out;
  for (auto unit : units) {
    Linear digit;
    Linear lower;
    for (bool again = true; again;) {
      again = false;
      digit = {{}, floor_div(rest.constant, unit)};
      lower = {{}, rest.constant - unit * digit.constant};
      for (const auto& [v, n] : rest.parts) {
        auto& to = n % unit == 0 ? digit : lower;
        to.add(Linear::of(v), n % unit == 0 ? n / unit : n);
      }
      const auto range = compute_range(lower, {});
      if (range.begin >= 0 && range.end <= unit) break;
      for (const auto& [v, n] : lower.parts) {
        const auto size = n > 0 && unit % n == 0 ? unit / n : 0;
        if (size < 2 || extents_[v] <= size || extents_[v] % size != 0) continue;
        split_index(v, size);
        again = true;
        break;
      }
      if (!again) throw NotNormal("an index crosses the boundary of a reshaped dimension");
      rest = resolve(rest);
    }
    out.push_back(digit);
    rest = lower;
  }
  return out;
}

void Algebra::apply_splits(ScalarTerm& term) {
  if (splits_.empty()) return;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [v, by] : splits_) {
      if (!mentions(term, v)) {
        const auto* r = term.domain.find(v);
        if (r == nullptr) continue;
      }
      const auto* r = term.domain.find(v);
      const bool bound = r != nullptr && r->bound;
      substitute(term, v, by);
      if (bound) {
        for (const auto& [part, unused] : by.parts) {
          term.domain.ranges.push_back({part, {0, extents_[part]}, true});
        }
      }
      changed = true;
    }
  }
}

// --- Building -----------------------------------------------------------------------------------

void Algebra::rename(ScalarTerm& term) {
  const auto take = [&](Domain& domain) {
    std::vector<std::pair<IndexVar, IndexVar>> names;
    for (auto& r : domain.ranges) {
      if (!r.bound) continue;
      const auto name = create_index(extents_[r.var]);
      names.emplace_back(r.var, name);
      r.var = name;
    }
    return names;
  };
  const auto names = take(term.domain);
  for (const auto& [from, to] : names) substitute(term, from, Linear::of(to));
  for (auto& atom : term.atoms) {
    for (const auto& [from, to] : take(atom.domain)) {
      ScalarTerm inner{.domain = std::move(atom.domain)};
      inner.atoms.push_back(std::move(atom));
      substitute(inner, from, Linear::of(to));
      atom = std::move(inner.atoms[0]);
      atom.domain = std::move(inner.domain);
    }
    for (auto& argument : atom.arguments) {
      for (auto& t : argument) rename(t);
    }
  }
}

Sum Algebra::rename_bound_indices(const Sum& sum) {
  Sum out = sum;
  for (auto& t : out) rename(t);
  return out;
}

Sum Algebra::multiply(const Sum& a, const Sum& b) {
  if (a.size() * b.size() > kMostTerms) throw NotNormal("has too many terms");
  Sum out;
  for (const auto& x : a) {
    for (const auto& y : b) {
      ScalarTerm t = x;
      ScalarTerm other = y;
      rename(other);
      t.coefficient = t.coefficient * other.coefficient;
      for (auto& r : other.domain.ranges) {
        auto* known = t.domain.find(r.var);
        if (known == nullptr) {
          t.domain.ranges.push_back(r);
        } else {
          known->range = {std::max(known->range.begin, r.range.begin),
                          std::min(known->range.end, r.range.end)};
        }
      }
      const auto append = [](auto& to, auto& from) {
        to.insert(to.end(), std::make_move_iterator(from.begin()),
                  std::make_move_iterator(from.end()));
      };
      append(t.domain.guards, other.domain.guards);
      append(t.domain.zeros, other.domain.zeros);
      append(t.atoms, other.atoms);
      out.push_back(std::move(t));
    }
  }
  return normalize(out);
}

// Sums the term over `v` from here on, or over the indices that `v` was split into.
void Algebra::bind(ScalarTerm& term, IndexVar v) {
  apply_splits(term);
  for (auto leaf : list_leaves(v)) {
    const auto name = create_index(extents_[leaf]);
    auto range = Range{0, extents_[leaf]};
    if (const auto* r = term.domain.find(leaf)) range = r->range;
    std::erase_if(term.domain.ranges, [&](const VarRange& r) { return r.var == leaf; });
    substitute(term, leaf, Linear::of(name));
    term.domain.ranges.push_back({name, range, true});
  }
}

Sum Algebra::sum_over(const Sum& sum, IndexVar v) {
  Sum out = sum;
  for (auto& t : out) {
    bind(t, v);
  }
  return normalize(out);
}

Sum Algebra::take_maximum(const Sum& sum, std::span<const IndexVar> over, const Sum* guard) {
  Atom atom{.kind = Atom::AtomKind::kMax};
  ScalarTerm inside;  // the guard's conditions, if it consists of conditions alone
  bool pure = guard == nullptr;
  if (guard != nullptr && guard->size() == 1) {
    inside = (*guard)[0];
    rename(inside);
    pure = inside.atoms.empty() &&
           std::ranges::none_of(inside.domain.ranges, [](const auto& r) { return r.bound; });
  }
  atom.arguments.push_back(sum);
  if (pure) {
    atom.domain = std::move(inside.domain);
  } else {
    atom.arguments.push_back(*guard);
  }
  // Wraps the atom in a term, so that substitution reaches all of it.
  ScalarTerm whole{.domain = std::move(atom.domain)};
  atom.domain = {};
  whole.atoms.push_back(std::move(atom));
  for (auto v : over) bind(whole, v);
  // A free index in the guard's ranges could leave nothing to take the maximum of.
  for (const auto& r : whole.domain.ranges) {
    if (!r.bound) throw NotNormal("a maximum over nothing");
  }
  Atom made = std::move(whole.atoms[0]);
  made.domain = std::move(whole.domain);
  ScalarTerm out;
  out.atoms.push_back(std::move(made));
  return normalize({out});
}

Sum Algebra::normalize(const Sum& sum) {
  Sum out;
  for (const auto& t : sum) simplify(t, out);
  return merge_terms(std::move(out));
}

}  // namespace tandem::verify
