// Computes keys of expressions. Bound indices are named by where they occur. Each gets a colour
// from the colours of its neighbours, over a few rounds. For indices with equal colours every order
// is tried, and the least key counts.
#include <algorithm>
#include <bit>
#include <map>

#include "base/hash.h"
#include "verify/scalar.h"

namespace tandem::verify {

namespace {

constexpr std::size_t kMostOrders = 120;

// Hashes that replace variables; a variable without one is hashed by its own number.
using Colours = std::map<IndexVar, Hash>;

Hash get_colour(const Colours& colours, IndexVar v) {
  const auto at = colours.find(v);
  return at == colours.end() ? mix(v) : at->second;
}

Hash hash_with_colours(const Linear& e, const Colours& colours) {
  Hash h = static_cast<Hash>(e.parts.size());
  for (const auto& [v, n] : e.parts) {
    h += hash_combine(get_colour(colours, v), static_cast<Hash>(n));
  }
  return mix(h);
}

Hash hash_with_colours(const Sum& sum, Colours& colours);

Hash hash_with_colours(const Domain& domain, const Colours& colours) {
  Hash h = 1;
  for (const auto& e : domain.guards) h += hash_with_colours(e, colours);
  for (const auto& e : domain.zeros) h += mix(hash_with_colours(e, colours));
  return mix(h);
}

void colour_bound_indices(Colours& colours, const Domain& domain) {
  for (const auto& r : domain.ranges) {
    if (r.bound) colours[r.var] = 7;
  }
}

Hash hash_with_colours(const Atom& atom, Colours& colours) {
  colour_bound_indices(colours, atom.domain);
  Hash h = hash_combine(static_cast<Hash>(atom.kind), static_cast<Hash>(atom.id));
  h = hash_combine(h, std::bit_cast<Hash>(atom.number));
  for (const auto& e : atom.at) h = hash_combine(h, hash_with_colours(e, colours));
  for (const auto& argument : atom.arguments)
    h = hash_combine(h, hash_with_colours(argument, colours));
  return hash_combine(h, hash_with_colours(atom.domain, colours));
}

Hash hash_with_colours(const Sum& sum, Colours& colours) {
  Hash out = sum.size();
  for (const auto& term : sum) {
    colour_bound_indices(colours, term.domain);
    Hash h = term.coefficient.value();
    for (const auto& atom : term.atoms) h += hash_with_colours(atom, colours);
    out += hash_combine(h, hash_with_colours(term.domain, colours));
  }
  return mix(out);
}

std::vector<IndexVar> list_bound_indices(const Domain& domain) {
  std::vector<IndexVar> out;
  for (const auto& r : domain.ranges) {
    if (r.bound) out.push_back(r.var);
  }
  return out;
}

using Names = std::map<IndexVar, std::int64_t>;

// Returns the name of a variable. Names of bound indices are negative, unlike those of free ones.
std::int64_t get_name(const Names& names, IndexVar v) {
  const auto at = names.find(v);
  return at == names.end() ? static_cast<std::int64_t>(v) : at->second;
}

Key make_key(const Linear& e, const Names& names) {
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  parts.reserve(e.parts.size());
  for (const auto& [v, n] : e.parts) parts.emplace_back(get_name(names, v), n);
  std::ranges::sort(parts);
  Key out = {static_cast<std::int64_t>(parts.size()), e.constant};
  for (const auto& [v, n] : parts) {
    out.push_back(v);
    out.push_back(n);
  }
  return out;
}

void append(Key& to, const Key& from) { to.insert(to.end(), from.begin(), from.end()); }

void append_sorted(Key& to, std::vector<Key> keys) {
  std::ranges::sort(keys);
  to.push_back(static_cast<std::int64_t>(keys.size()));
  for (const auto& key : keys) append(to, key);
}

class KeyWriter {
 public:
  explicit KeyWriter(bool with_ranges) : with_ranges_(with_ranges) {}

  Keyed write_term(const ScalarTerm& write_term) {
    return find_least_key(list_bound_indices(write_term.domain), compute_colours(write_term), [&] {
      Key key = write_domain(write_term.domain);
      std::vector<Key> atoms;
      atoms.reserve(write_term.atoms.size());
      for (const auto& a : write_term.atoms) atoms.push_back(write_atom(a));
      append_sorted(key, std::move(atoms));
      return key;
    });
  }

  Key write_sum(const Sum& write_sum) {
    std::vector<Key> keys;
    keys.reserve(write_sum.size());
    for (const auto& t : write_sum) {
      auto key = write_term(t).key;
      key.push_back(static_cast<std::int64_t>(t.coefficient.value()));
      keys.push_back(std::move(key));
    }
    Key out;
    append_sorted(out, std::move(keys));
    return out;
  }

 private:
  // Returns the key of an argument. Inner ranges always count.
  Key write_inner(const Sum& s) {
    const bool outer = std::exchange(with_ranges_, true);
    auto key = write_sum(s);
    with_ranges_ = outer;
    return key;
  }

  Key write_domain(const Domain& d) {
    Key out;
    std::vector<Key> keys;
    for (const auto& r : d.ranges) {
      if (with_ranges_) {
        keys.push_back({get_name(names_, r.var), r.range.begin, r.range.end});
      } else if (r.bound) {
        keys.push_back({get_name(names_, r.var)});
      }
    }
    append_sorted(out, std::move(keys));
    for (const auto* list : {&d.guards, &d.zeros}) {
      keys.clear();
      for (const auto& e : *list) keys.push_back(make_key(e, names_));
      append_sorted(out, std::move(keys));
    }
    return out;
  }

  Key write_atom(const Atom& a) {
    const bool outer = std::exchange(with_ranges_, true);
    auto out =
        find_least_key(list_bound_indices(a.domain), {}, [&] {
          Key key = {static_cast<std::int64_t>(a.kind), a.id, std::bit_cast<std::int64_t>(a.number),
                     static_cast<std::int64_t>(a.at.size())};
          for (const auto& e : a.at) append(key, make_key(e, names_));
          for (const auto& argument : a.arguments) append(key, write_inner(argument));
          append(key, write_domain(a.domain));
          return key;
        }).key;
    with_ranges_ = outer;
    return out;
  }

  // Returns colours of the term's bound indices. Indices bound outside the term go by their names
  // in the key, so that their numbers do not matter.
  [[nodiscard]] Colours compute_colours(const ScalarTerm& term) const {
    const auto bound = list_bound_indices(term.domain);
    Colours colours;
    if (bound.size() > 1) {
      for (const auto& [v, name] : names_) colours[v] = mix(static_cast<Hash>(name));
    }
    for (auto v : bound) colours[v] = 3;
    if (bound.size() < 2) return colours;
    for (std::size_t round = 0; round < bound.size() + 1; ++round) {
      Colours next;
      for (auto v : bound) {
        auto marked = colours;
        marked[v] = mix(colours[v] + 1);
        Hash h = hash_with_colours(term.domain, marked);
        for (const auto& a : term.atoms) h += hash_with_colours(a, marked);
        next[v] = hash_combine(colours[v], h);
      }
      for (auto v : bound) colours[v] = next[v];
    }
    return colours;
  }

  // Returns the least key over the orders of the bound indices that their colours allow.
  template <class Write>
  Keyed find_least_key(std::vector<IndexVar> bound, const Colours& colours, Write&& write) {
    if (bound.empty()) return {write(), {}};
    const auto less = [&](IndexVar a, IndexVar b) {
      return std::pair(colour_or_0(colours, a), a) < std::pair(colour_or_0(colours, b), b);
    };
    std::ranges::sort(bound, less);
    Keyed least;
    std::size_t orders = 0;
    const auto depth = depth_;
    depth_ += bound.size();
    do {
      for (std::size_t i = 0; i < bound.size(); ++i) {
        names_[bound[i]] = -1 - static_cast<std::int64_t>(depth + i);
      }
      auto key = write();
      if (least.key.empty() || key < least.key) least = {std::move(key), bound};
    } while (++orders < kMostOrders && next_order(bound, colours));
    for (auto v : bound) names_.erase(v);
    depth_ = depth;
    return least;
  }

  static Hash colour_or_0(const Colours& colours, IndexVar v) {
    const auto at = colours.find(v);
    return at == colours.end() ? 0 : at->second;
  }

  // Moves to the next permutation within groups of one colour. Returns false after the last one.
  static bool next_order(std::vector<IndexVar>& bound, const Colours& colours) {
    for (std::size_t end = bound.size(); end > 0;) {
      auto begin = end - 1;
      const auto c = colour_or_0(colours, bound[begin]);
      while (begin > 0 && colour_or_0(colours, bound[begin - 1]) == c) --begin;
      const auto first = bound.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last = bound.begin() + static_cast<std::ptrdiff_t>(end);
      if (std::next_permutation(first, last)) return true;
      end = begin;
    }
    return false;
  }

  bool with_ranges_;
  Names names_;
  std::size_t depth_ = 0;
};

}  // namespace

Keyed make_key(const ScalarTerm& term, bool with_ranges) {
  return KeyWriter(with_ranges).write_term(term);
}

Key make_key(const Sum& sum) { return KeyWriter(true).write_sum(sum); }

}  // namespace tandem::verify
