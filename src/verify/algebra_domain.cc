// Simplifies conditions on indices. It solves equations, converts inequalities to ranges, and joins
// indices. It shifts each index so that the first tensor read along it starts at 0.
#include <algorithm>
#include <numeric>

#include "verify/algebra.h"

namespace tandem::verify {

// Splits an equation into digits: U h + l = 0 with l in (-U, U) implies h = 0 and l = 0. For
// example, 4 i - 4 j + k = 0 with k in [0, 4) gives i - j = 0 and k = 0. Leaves l in `e` and
// returns h, or nullopt.
std::optional<Linear> Algebra::split_digits(Linear& e, const Domain& domain) const {
  for (const auto& [unused, unit] : e.parts) {
    const auto u = std::abs(unit);
    if (u < 2) continue;
    Linear high{{}, e.constant / u};
    Linear low{{}, e.constant % u};
    for (const auto& [v, n] : e.parts) {
      auto& to = n % u == 0 ? high : low;
      to.add(Linear::of(v), n % u == 0 ? n / u : n);
    }
    if (low.parts.empty()) continue;
    const auto range = compute_range(low, domain);
    if (range.begin <= -u || range.end > u) continue;
    e = std::move(low);
    return high;
  }
  return std::nullopt;
}

// Converts an equation `v = n` of a free index to the range [n, n + 1), as guards do. Returns
// whether `zero` is such an equation.
bool Algebra::fix_free_index(const Linear& zero, Domain& domain) const {
  if (zero.parts.size() != 1) return false;
  const auto [v, n] = zero.parts[0];
  auto* known = domain.find(v);
  if (known != nullptr && known->bound) return false;
  const auto value = -zero.constant / n;  // the caller checked that it divides and is in range
  const Range range{value, value + 1};
  if (known != nullptr) {
    known->range = range;
  } else {
    domain.ranges.push_back({v, range, false});
  }
  return true;
}

bool Algebra::simplify_zeros(ScalarTerm& term, bool& changed) {
  auto& domain = term.domain;
  for (std::size_t z = 0; z < domain.zeros.size(); ++z) {
    if (auto high = split_digits(domain.zeros[z], domain)) {
      domain.zeros.push_back(std::move(*high));
      changed = true;
    }
  }
  for (std::size_t z = 0; z < domain.zeros.size(); ++z) {
    auto e = domain.zeros[z];
    std::int64_t divisor = 0;
    for (const auto& [v, n] : e.parts) divisor = std::gcd(divisor, n);
    const auto range = compute_range(e, domain);
    if (range.begin > 0 || range.end <= 0) return false;
    if (divisor != 0 && e.constant % divisor != 0) return false;
    if (e.parts.empty()) {
      domain.zeros.erase(domain.zeros.begin() + static_cast<std::ptrdiff_t>(z));
      return changed = true;
    }
    if (fix_free_index(e, domain)) {
      domain.zeros.erase(domain.zeros.begin() + static_cast<std::ptrdiff_t>(z));
      return changed = true;
    }
    for (const auto& [v, n] : e.parts) {
      const auto* r = domain.find(v);
      if (r == nullptr || !r->bound || std::abs(n) != 1) continue;
      Linear by = e;
      by.substitute(v, {});
      Linear value;
      value.add(by, -n);
      domain.zeros.erase(domain.zeros.begin() + static_cast<std::ptrdiff_t>(z));
      substitute(term, v, value);  // the range becomes guards
      return changed = true;
    }
    // With free variables only, replaces the last one everywhere else.
    for (std::size_t p = e.parts.size(); p-- > 0;) {
      const auto v = e.parts[p].first;
      const auto n = e.parts[p].second;
      if (std::abs(n) != 1) continue;
      const bool elsewhere = [&] {
        auto others = term;
        others.domain.zeros.erase(others.domain.zeros.begin() + static_cast<std::ptrdiff_t>(z));
        return mentions(others, v);
      }();
      if (!elsewhere) break;
      Linear by = e;
      by.substitute(v, {});
      Linear value;
      value.add(by, -n);
      domain.zeros.erase(domain.zeros.begin() + static_cast<std::ptrdiff_t>(z));
      substitute(term, v, value);
      Linear canonical = Linear::of(v);
      canonical.add(value, -1);
      domain.zeros.push_back(std::move(canonical));
      return changed = true;
    }
  }
  return true;
}

// Drops minor digits: U h + l >= 0 with l in [0, U) means h >= 0, whatever l is.
void Algebra::drop_minor_digits(Linear& e, const Domain& domain) const {
  for (const auto& [unused, unit] : e.parts) {
    const auto u = std::abs(unit);
    if (u < 2) continue;
    Linear high;
    Linear low;
    for (const auto& [v, n] : e.parts) {
      auto& to = n % u == 0 ? high : low;
      to.add(Linear::of(v), n % u == 0 ? n / u : n);
    }
    if (low.parts.empty()) continue;
    const auto range = compute_range(low, domain);
    high.constant = floor_div(e.constant + range.begin, u);
    if (e.constant - u * high.constant + range.end > u) continue;
    e = std::move(high);
    return;
  }
}

bool Algebra::simplify_guards(ScalarTerm& term, bool& changed) {
  auto& domain = term.domain;
  std::vector<Linear> retained;
  for (auto& e : domain.guards) {
    drop_minor_digits(e, domain);
    std::int64_t divisor = 0;
    for (const auto& [v, n] : e.parts) divisor = std::gcd(divisor, n);
    if (divisor > 1) {
      for (auto& [v, n] : e.parts) n /= divisor;
      e.constant = floor_div(e.constant, divisor);
    }
    const auto range = compute_range(e, domain);
    if (range.end <= 0) return false;
    if (range.begin >= 0) continue;
    if (e.parts.size() == 1) {
      const auto [v, n] = e.parts[0];
      auto r = compute_range(v, domain);
      if (n > 0) r.begin = std::max(r.begin, -floor_div(e.constant, n));
      if (n < 0) r.end = std::min(r.end, floor_div(e.constant, -n) + 1);
      if (auto* known = domain.find(v)) {
        known->range = r;
      } else {
        domain.ranges.push_back({v, r, false});
      }
      changed = true;
      continue;
    }
    // Guards that bound an expression by 0 from both sides are an equation.
    Linear opposite{{}, -e.constant};
    for (const auto& [v, n] : e.parts) opposite.add(Linear::of(v), -n);
    const auto other = std::ranges::find(retained, opposite);
    if (range.end == 1 || other != retained.end()) {
      if (other != retained.end()) retained.erase(other);
      domain.zeros.push_back(e);
      changed = true;
      continue;
    }
    if (laws_ == Laws::kOfOrder && tighten(e, domain)) changed = true;
    const auto same = std::ranges::find(retained, e.parts, &Linear::parts);
    if (same == retained.end()) {
      retained.push_back(e);
    } else {
      same->constant = std::min(same->constant, e.constant);
    }
  }
  domain.guards = std::move(retained);
  return true;
}

bool Algebra::simplify_domain(ScalarTerm& term) {
  for (bool changed = true; changed;) {
    changed = false;
    if (!simplify_zeros(term, changed) || !simplify_guards(term, changed)) return false;
    for (std::size_t i = 0; i < term.domain.ranges.size(); ++i) {
      const auto r = term.domain.ranges[i];
      if (r.range.begin >= r.range.end) return false;
      if (r.range.end - r.range.begin > 1) continue;
      if (r.bound) {
        std::erase_if(term.domain.ranges, [&](const VarRange& x) { return x.var == r.var; });
        substitute(term, r.var, {{}, r.range.begin});
        changed = true;
        break;
      }
      // A free index with only one possible value is replaced by that value.
      term.domain.ranges.erase(term.domain.ranges.begin() + static_cast<std::ptrdiff_t>(i));
      if (mentions(term, r.var)) {
        substitute(term, r.var, {{}, r.range.begin});
        changed = true;
      }
      term.domain.ranges.insert(term.domain.ranges.begin() + static_cast<std::ptrdiff_t>(i), r);
    }
  }
  // Removes free ranges that exclude nothing.
  std::erase_if(term.domain.ranges, [&](const VarRange& r) {
    if (r.bound) return false;
    return compute_range(r.var, Domain{}) == r.range;
  });
  return true;
}

void Algebra::drop_unused(ScalarTerm& term) {
  for (std::size_t i = term.domain.ranges.size(); i-- > 0;) {
    const auto r = term.domain.ranges[i];
    if (!r.bound || mentions(term, r.var)) continue;
    term.coefficient =
        term.coefficient * term::Numbers<Field>::from_index(r.range.end - r.range.begin);
    term.domain.ranges.erase(term.domain.ranges.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

namespace {

bool has_inner_range(const std::vector<Atom>& atoms, IndexVar v) {
  return std::ranges::any_of(atoms, [&](const Atom& atom) {
    if (atom.domain.find(v) != nullptr) return true;
    return std::ranges::any_of(atom.arguments, [&](const Sum& sum) {
      return std::ranges::any_of(sum, [&](const ScalarTerm& t) {
        return t.domain.find(v) != nullptr || has_inner_range(t.atoms, v);
      });
    });
  });
}

}  // namespace

// Joins two indices u, w into one if they only occur as W u + w with w in [0, W).
void Algebra::join_digits(ScalarTerm& term) {
  const auto bound_from_0 = [&](const VarRange& r) { return r.bound && r.range.begin == 0; };
  for (bool changed = true; changed;) {
    changed = false;
    const auto ranges = term.domain.ranges;
    for (const auto& u : ranges) {
      for (const auto& w : ranges) {
        if (changed || u.var == w.var || !bound_from_0(u) || !bound_from_0(w)) continue;
        const auto size = w.range.end;
        bool together = true;
        together = !has_inner_range(term.atoms, u.var) && !has_inner_range(term.atoms, w.var);
        for_each_linear(term, [&](Linear& e) {
          together = together && e.coefficient(u.var) == size * e.coefficient(w.var);
        });
        if (!together || size < 2) continue;
        const auto v = create_index(u.range.end * size);
        Linear by = Linear::of(v);
        by.add(Linear::of(u.var), -size);
        std::erase_if(term.domain.ranges,
                      [&](const VarRange& r) { return r.var == u.var || r.var == w.var; });
        substitute(term, w.var, by);
        term.domain.ranges.push_back({v, {0, u.range.end * size}, true});
        changed = true;
      }
    }
  }
}

namespace {

// A place where an index occurs alone, or nearly so. The least such place decides where the index
// starts to count.
struct Lead {
  std::size_t parts;
  Atom::AtomKind kind;
  std::int64_t id;
  std::size_t dim;
  std::int64_t start;  // the index value that cancels the expression's constant
  auto operator<=>(const Lead&) const = default;
};

void find_lead(const std::vector<Atom>& atoms, IndexVar v, std::optional<Lead>& best) {
  for (const auto& atom : atoms) {
    for (std::size_t d = 0; d < atom.at.size(); ++d) {
      const auto n = atom.at[d].coefficient(v);
      if (std::abs(n) != 1) continue;
      const Lead lead{atom.at[d].parts.size(), atom.kind, atom.id, d, -n * atom.at[d].constant};
      if (!best || lead < *best) best = lead;
    }
    for (const auto& argument : atom.arguments) {
      for (const auto& t : argument) find_lead(t.atoms, v, best);
    }
  }
}

}  // namespace

void Algebra::shift_indices(ScalarTerm& term) const {
  for (auto& r : term.domain.ranges) {
    if (!r.bound) continue;
    std::optional<Lead> lead;
    find_lead(term.atoms, r.var, lead);
    const auto start = lead ? lead->start : r.range.begin;
    if (start == 0) continue;
    const auto range = r.range;
    Linear by = Linear::of(r.var);
    by.constant = start;
    r.bound = false;
    const auto var = r.var;
    for_each_linear(term, [&](Linear& e) { e.substitute(var, by); });
    // Shifts the ranges of the variable in inner domains.
    const auto inner = [&](auto&& self, std::vector<Atom>& atoms) -> void {
      for (auto& atom : atoms) {
        if (auto* x = atom.domain.find(var))
          x->range = {x->range.begin - start, x->range.end - start};
        for (auto& argument : atom.arguments) {
          for (auto& t : argument) {
            if (auto* x = t.domain.find(var)) {
              x->range = {x->range.begin - start, x->range.end - start};
            }
            self(self, t.atoms);
          }
        }
      }
    };
    inner(inner, term.atoms);
    auto* again = term.domain.find(var);
    again->bound = true;
    again->range = {range.begin - start, range.end - start};
  }
}

}  // namespace tandem::verify
