#include "verify/algebra.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace tandem::verify {

namespace {

constexpr std::size_t kMostWork = 4000;  // terms that are simplified
constexpr std::size_t kMostTerms = 256;  // of a product

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}

// A small whole number of either sign.
std::optional<std::int64_t> whole(Field value) {
  constexpr std::uint64_t kSmall = std::uint64_t{1} << 40U;
  if (value.value() < kSmall) return static_cast<std::int64_t>(value.value());
  if (Field::kPrime - value.value() < kSmall) {
    return -static_cast<std::int64_t>(Field::kPrime - value.value());
  }
  return std::nullopt;
}

Field field(std::int64_t n) { return term::Numbers<Field>::from_index(n); }

bool is_plain(const Domain& d) { return d.ranges.empty() && d.guards.empty() && d.zeros.empty(); }

// The number that a sum is, if it is one.
std::optional<Field> number_of(const Sum& sum) {
  if (sum.empty()) return Field(0);
  if (sum.size() > 1 || !sum[0].atoms.empty() || !is_plain(sum[0].domain)) return std::nullopt;
  return sum[0].coefficient;
}

Sum negated(Sum sum) {
  for (auto& t : sum) t.coefficient = t.coefficient * field(-1);
  return sum;
}

}  // namespace

std::optional<Linear> linear_of(const Sum& sum) {
  Linear out;
  for (const auto& term : sum) {
    const auto n = whole(term.coefficient);
    if (!n || !is_plain(term.domain) || term.atoms.size() > 1) return std::nullopt;
    if (term.atoms.empty()) {
      out.constant += *n;
    } else if (term.atoms[0].kind == Atom::Kind::kIndex) {
      out.add(term.atoms[0].at[0], *n);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

IndexVar Algebra::fresh(std::int64_t extent) {
  extents_.push_back(extent);
  return static_cast<IndexVar>(extents_.size() - 1);
}

void Algebra::count_work() {
  if (++work_ > kMostWork) throw NotNormal("takes too many steps");
}

// --- Ranges -------------------------------------------------------------------------------------

Range Algebra::range_of(IndexVar v, const Domain& innermost) const {
  if (const auto* r = innermost.find(v)) return r->range;
  for (std::size_t s = scope_.size(); s-- > 0;) {
    if (const auto* r = scope_[s]->find(v)) return r->range;
  }
  return {0, extents_[v]};
}

// Of the values, the end not included.
Range Algebra::range_of(const Linear& e, const Domain& innermost) const {
  Range out{e.constant, e.constant + 1};
  for (const auto& [v, n] : e.parts) {
    const auto r = range_of(v, innermost);
    out.begin += n * (n > 0 ? r.begin : r.end - 1);
    out.end += n * (n > 0 ? r.end - 1 : r.begin);
  }
  return out;
}

// --- Digits -------------------------------------------------------------------------------------

Linear Algebra::resolved(Linear e) const {
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

void Algebra::split(IndexVar v, std::int64_t unit) {
  const auto major = fresh(extents_[v] / unit);
  const auto minor = fresh(unit);
  Linear by;
  by.add(Linear::of(major), unit);
  by.add(Linear::of(minor));
  splits_[v] = by;
}

std::vector<IndexVar> Algebra::leaves(IndexVar v) const {
  std::vector<IndexVar> out;
  for (const auto& [part, unused] : resolved(Linear::of(v)).parts) out.push_back(part);
  return out;
}

std::vector<Linear> Algebra::digits(const Linear& e, std::span<const std::int64_t> units) {
  Linear rest = resolved(e);
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
      const auto range = range_of(lower, {});
      if (range.begin >= 0 && range.end <= unit) break;
      for (const auto& [v, n] : lower.parts) {
        const auto size = n > 0 && unit % n == 0 ? unit / n : 0;
        if (size < 2 || extents_[v] <= size || extents_[v] % size != 0) continue;
        split(v, size);
        again = true;
        break;
      }
      if (!again) throw NotNormal("an index crosses the boundary of a reshaped dimension");
      rest = resolved(rest);
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
      const auto name = fresh(extents_[r.var]);
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

Sum Algebra::renamed(const Sum& sum) {
  Sum out = sum;
  for (auto& t : out) rename(t);
  return out;
}

Sum Algebra::times(const Sum& a, const Sum& b) {
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
  return normal(out);
}

Sum Algebra::over(const Sum& sum, IndexVar v) {
  Sum out = sum;
  for (auto& t : out) {
    apply_splits(t);
    for (auto leaf : leaves(v)) {
      const auto name = fresh(extents_[leaf]);
      auto range = Range{0, extents_[leaf]};
      if (const auto* r = t.domain.find(leaf)) range = r->range;
      std::erase_if(t.domain.ranges, [&](const VarRange& r) { return r.var == leaf; });
      substitute(t, leaf, Linear::of(name));
      t.domain.ranges.push_back({name, range, true});
    }
  }
  return normal(out);
}

Sum Algebra::maximum(const Sum& sum, std::span<const IndexVar> over, const Sum* guard) {
  Atom atom{.kind = Atom::Kind::kMax};
  ScalarTerm inside;  // conditions alone, where the guard is no more than that
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
  // As a term, so that substitution reaches all of it.
  ScalarTerm whole{.domain = std::move(atom.domain)};
  atom.domain = {};
  whole.atoms.push_back(std::move(atom));
  std::vector<VarRange> bound;
  for (auto v : over) {
    apply_splits(whole);
    for (auto leaf : leaves(v)) {
      const auto name = fresh(extents_[leaf]);
      auto range = Range{0, extents_[leaf]};
      if (const auto* r = whole.domain.find(leaf)) range = r->range;
      std::erase_if(whole.domain.ranges, [&](const VarRange& r) { return r.var == leaf; });
      substitute(whole, leaf, Linear::of(name));
      whole.domain.ranges.push_back({name, range, true});
    }
  }
  // What is left free in the guard's ranges would make the maximum one of nothing there.
  for (const auto& r : whole.domain.ranges) {
    if (!r.bound) throw NotNormal("a maximum over nothing");
  }
  Atom made = std::move(whole.atoms[0]);
  made.domain = std::move(whole.domain);
  ScalarTerm out;
  out.atoms.push_back(std::move(made));
  return normal({out});
}

// --- Normal form --------------------------------------------------------------------------------

Sum Algebra::normal(const Sum& sum) {
  Sum out;
  for (const auto& t : sum) simplify(t, out);
  return joined(std::move(out));
}

bool Algebra::simplify_zeros(ScalarTerm& term, bool& changed) {
  auto& domain = term.domain;
  for (std::size_t z = 0; z < domain.zeros.size(); ++z) {
    auto e = domain.zeros[z];
    std::int64_t divisor = 0;
    for (const auto& [v, n] : e.parts) divisor = std::gcd(divisor, n);
    const auto range = range_of(e, domain);
    if (range.begin > 0 || range.end <= 0) return false;
    if (divisor != 0 && e.constant % divisor != 0) return false;
    if (e.parts.empty()) {
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
    // Of free variables the last is replaced everywhere else.
    for (std::size_t p = e.parts.size(); p-- > 0;) {
      const auto [v, n] = e.parts[p];
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

bool Algebra::simplify_guards(ScalarTerm& term, bool& changed) {
  auto& domain = term.domain;
  std::vector<Linear> kept;
  for (auto& e : domain.guards) {
    std::int64_t divisor = 0;
    for (const auto& [v, n] : e.parts) divisor = std::gcd(divisor, n);
    if (divisor > 1) {
      for (auto& [v, n] : e.parts) n /= divisor;
      e.constant = floor_div(e.constant, divisor);
    }
    const auto range = range_of(e, domain);
    if (range.end <= 0) return false;
    if (range.begin >= 0) continue;
    if (e.parts.size() == 1) {
      const auto [v, n] = e.parts[0];
      auto r = range_of(v, domain);
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
    const auto same = std::ranges::find(kept, e.parts, &Linear::parts);
    if (same == kept.end()) {
      kept.push_back(e);
    } else {
      same->constant = std::min(same->constant, e.constant);
    }
  }
  domain.guards = std::move(kept);
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
    }
  }
  // A free index that can be one number only is that number.
  for (std::size_t i = 0; i < term.domain.ranges.size(); ++i) {
    const auto r = term.domain.ranges[i];
    if (r.range.end - r.range.begin > 1) continue;
    term.domain.ranges.erase(term.domain.ranges.begin() + static_cast<std::ptrdiff_t>(i));
    if (mentions(term, r.var)) substitute(term, r.var, {{}, r.range.begin});
    term.domain.ranges.insert(term.domain.ranges.begin() + static_cast<std::ptrdiff_t>(i), r);
  }
  // Free ranges that say nothing.
  std::erase_if(term.domain.ranges, [&](const VarRange& r) {
    if (r.bound) return false;
    return range_of(r.var, Domain{}) == r.range;
  });
  return true;
}

void Algebra::drop_unused(ScalarTerm& term) {
  for (std::size_t i = term.domain.ranges.size(); i-- > 0;) {
    const auto r = term.domain.ranges[i];
    if (!r.bound || mentions(term, r.var)) continue;
    term.coefficient = term.coefficient * field(r.range.end - r.range.begin);
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

// Of indices u, w that occur as W u + w alone, w in [0, W), one index is made.
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
        const auto v = fresh(u.range.end * size);
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

// Where an index stands alone, or nearly so; the least decides where it begins to count.
struct Lead {
  std::size_t parts;
  Atom::Kind kind;
  std::int64_t id;
  std::size_t dim;
  std::int64_t start;  // the index at which the expression's constant vanishes
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

void Algebra::shift(ScalarTerm& term) const {
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
    // Ranges of the variable in inner domains.
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

void Algebra::simplify(ScalarTerm term, Sum& out) {
  count_work();
  if (term.coefficient == Field(0)) return;
  apply_splits(term);
  if (!simplify_domain(term)) return;
  for (std::size_t a = 0; a < term.atoms.size(); ++a) {
    auto instead = simplify_atom(term.atoms[a], term);
    if (!instead) continue;
    term.atoms.erase(term.atoms.begin() + static_cast<std::ptrdiff_t>(a));
    const auto product = times({std::move(term)}, *instead);
    out.insert(out.end(), product.begin(), product.end());
    return;
  }
  if (cut(term, out)) return;
  drop_unused(term);
  join_digits(term);
  shift(term);
  out.push_back(std::move(term));
}

bool Algebra::cut(const ScalarTerm& term, Sum& out) {
  for (const auto& atom : term.atoms) {
    for (const auto& argument : atom.arguments) {
      for (const auto& inner : argument) {
        for (const auto& r : inner.domain.ranges) {
          const auto* of_maximum = atom.domain.find(r.var);
          if (r.bound || (of_maximum != nullptr && of_maximum->bound)) continue;
          const auto all = range_of(r.var, term.domain);
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
  for (auto& argument : inside.atoms[0].arguments) argument = normal(argument);
  scope_.pop_back();
  std::erase_if(inside.domain.ranges,
                [&](const VarRange& r) { return r.bound && !mentions(inside, r.var); });
  join_digits(inside);
  shift(inside);
  atom = std::move(inside.atoms[0]);
  atom.domain = std::move(inside.domain);
  if (is_plain(atom.domain) && atom.arguments.size() == 1) return atom.arguments[0];
  return std::nullopt;
}

std::optional<Sum> Algebra::simplify_atom(Atom& atom, const ScalarTerm& term) {
  using Kind = Atom::Kind;
  if (atom.kind == Kind::kRead || atom.kind == Kind::kKeep) return std::nullopt;
  if (atom.kind == Kind::kIndex) {
    const auto& e = atom.at[0];
    if (e.constant == 0 && e.parts.size() == 1 && e.parts[0].second == 1) return std::nullopt;
    Sum out = constant_sum(field(e.constant));
    for (const auto& [v, n] : e.parts) {
      out.push_back(
          {.coefficient = field(n), .atoms = {Atom{.kind = Kind::kIndex, .at = {Linear::of(v)}}}});
    }
    return out;
  }
  scope_.push_back(&term.domain);
  struct Leave {
    Scope& scope;
    ~Leave() { scope.pop_back(); }
  } leave{scope_};
  if (atom.kind == Kind::kMax) return simplify_maximum(atom);
  for (auto& argument : atom.arguments) argument = normal(argument);
  auto& argument = atom.arguments[0];
  const auto number = number_of(argument);
  if (atom.kind == Kind::kFunction) {
    const auto f = static_cast<term::Function>(atom.id);
    if (const auto n = number ? whole(*number) : std::nullopt) {
      const auto value = term::Numbers<double>::apply(f, static_cast<double>(*n));
      if (value == std::floor(value) && std::abs(value) < 0x1p40) {
        return constant_sum(field_of(value));
      }
    }
    const bool again = f == term::Function::kRelu && argument.size() == 1 &&
                       argument[0].coefficient == Field(1) && is_plain(argument[0].domain) &&
                       argument[0].atoms.size() == 1 && argument[0].atoms[0].kind == atom.kind &&
                       argument[0].atoms[0].id == atom.id;
    if (again) return argument;
    return std::nullopt;
  }
  if (atom.kind == Kind::kInverse) {
    if (number && *number != Field(0)) return constant_sum(number->inverse());
    if (argument.size() != 1 || !is_plain(argument[0].domain)) return std::nullopt;
    if (argument[0].coefficient == Field(1) && argument[0].atoms.size() == 1) return std::nullopt;
    ScalarTerm out{.coefficient = argument[0].coefficient.inverse()};
    for (const auto& factor : argument[0].atoms) {
      out.atoms.push_back({.kind = Kind::kInverse, .arguments = {{ScalarTerm{.atoms = {factor}}}}});
    }
    return Sum{out};
  }
  if (atom.kind == Kind::kEqual) {
    if (number) return constant_sum(field(*number == Field(0) ? 1 : 0));
    if (const auto e = linear_of(argument)) {
      ScalarTerm out;
      out.domain.zeros.push_back(*e);
      return Sum{out};
    }
    auto other = negated(argument);
    if (key_of(other) < key_of(argument)) argument = std::move(other);
    return std::nullopt;
  }
  CHECK(atom.kind == Kind::kLess);
  const auto a = linear_of(argument);
  const auto b = linear_of(atom.arguments[1]);
  if (!a || !b) return std::nullopt;
  ScalarTerm out;
  Linear guard = *b;
  guard.add(*a, -1);
  guard.constant -= 1;
  out.domain.guards.push_back(std::move(guard));
  return Sum{out};
}

// --- Joining terms ------------------------------------------------------------------------------

namespace {

// A term as a value on the line of one of its ranges.
struct Interval {
  Range range;
  Field coefficient;
};

// Maximal intervals of one coefficient.
std::vector<Interval> swept(const std::vector<Interval>& intervals) {
  std::vector<std::int64_t> cuts;
  for (const auto& i : intervals) {
    cuts.push_back(i.range.begin);
    cuts.push_back(i.range.end);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Interval> out;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    Field sum(0);
    for (const auto& i : intervals) {
      if (i.range.begin <= cuts[c] && cuts[c] < i.range.end) sum += i.coefficient;
    }
    if (sum == Field(0)) continue;
    if (!out.empty() && out.back().range.end == cuts[c] && out.back().coefficient == sum) {
      out.back().range.end = cuts[c + 1];
    } else {
      out.push_back({{cuts[c], cuts[c + 1]}, sum});
    }
  }
  return out;
}

// The variables that a term has ranges of, bound ones in the order of their key, then free ones.
std::vector<IndexVar> ranged(const ScalarTerm& term, const std::vector<IndexVar>& order) {
  auto out = order;
  for (const auto& r : term.domain.ranges) {
    if (!r.bound) out.push_back(r.var);
  }
  return out;
}

// Gives bound indices other names.
void rebind(ScalarTerm& term, const std::vector<IndexVar>& from, const std::vector<IndexVar>& to) {
  for (std::size_t k = 0; k < from.size(); ++k) {
    const auto range = term.domain.find(from[k])->range;
    std::erase_if(term.domain.ranges, [&](const VarRange& r) { return r.var == from[k]; });
    substitute(term, from[k], Linear::of(to[k]));
    term.domain.ranges.push_back({to[k], range, true});
  }
}

}  // namespace

// Terms that are equal but for one range are put on its line together.
Sum Algebra::joined(Sum terms) {
  std::map<Key, std::vector<std::size_t>> groups;
  std::vector<std::vector<IndexVar>> orders(terms.size());
  if (terms.size() < 2) return terms;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    auto keyed = key_of(terms[i], false);
    orders[i] = std::move(keyed.order);
    groups[std::move(keyed.key)].push_back(i);
  }
  Sum out;
  for (auto& [unused, members] : groups) {
    if (members.size() == 1) {
      out.push_back(std::move(terms[members[0]]));
      continue;
    }
    // Bound variables by one set of names; free ones with a range everywhere.
    std::vector<IndexVar> names = orders[members[0]];
    std::vector<IndexVar> free;
    Sum group;
    for (auto i : members) {
      auto t = std::move(terms[i]);
      if (i != members[0]) {
        // By way of new names: terms may have the same ones in another order.
        std::vector<IndexVar> passing;
        for (auto old : orders[i]) passing.push_back(fresh(extents_[old]));
        rebind(t, orders[i], passing);
        rebind(t, passing, names);
      }
      for (auto v : ranged(t, {})) {
        if (std::ranges::find(free, v) == free.end()) free.push_back(v);
      }
      group.push_back(std::move(t));
    }
    for (auto& t : group) {
      for (auto v : free) {
        if (t.domain.find(v) == nullptr) t.domain.ranges.push_back({v, range_of(v, {}), false});
      }
    }
    auto lines = names;
    lines.insert(lines.end(), free.begin(), free.end());
    std::ranges::sort(free);
    if (lines.empty()) {
      for (std::size_t i = 1; i < group.size(); ++i) group[0].coefficient += group[i].coefficient;
      if (group[0].coefficient != Field(0)) out.push_back(std::move(group[0]));
      continue;
    }
    for (bool changed = true; changed && group.size() > 1;) {
      changed = false;
      for (auto line : lines) {
        std::map<std::vector<std::int64_t>, std::vector<std::size_t>> rows;
        for (std::size_t i = 0; i < group.size(); ++i) {
          std::vector<std::int64_t> others;
          for (auto v : lines) {
            if (v == line) continue;
            const auto& r = group[i].domain.find(v)->range;
            others.insert(others.end(), {r.begin, r.end});
          }
          rows[others].push_back(i);
        }
        Sum next;
        for (const auto& [others, row] : rows) {
          std::vector<Interval> intervals;
          for (auto i : row) {
            intervals.push_back({group[i].domain.find(line)->range, group[i].coefficient});
          }
          for (const auto& interval : swept(intervals)) {
            auto t = group[row[0]];
            t.domain.find(line)->range = interval.range;
            t.coefficient = interval.coefficient;
            next.push_back(std::move(t));
          }
        }
        changed = changed || next.size() < group.size();
        group = std::move(next);
      }
    }
    for (auto& t : group) {
      std::erase_if(t.domain.ranges, [&](const VarRange& r) {
        return !r.bound && range_of(r.var, Domain{}) == r.range;
      });
      out.push_back(std::move(t));
    }
  }
  return out;
}

}  // namespace tandem::verify
