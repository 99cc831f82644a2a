// Joins terms that differ only in their ranges into as few as possible: 1 on [0, 3) and 1 on [3, 8)
// become 1 on [0, 8).
#include <algorithm>
#include <iterator>
#include <map>

#include "base/hash.h"
#include "verify/algebra.h"

namespace tandem::verify {

namespace {

// The range of a term along one index, with its coefficient.
struct WeightedRange {
  Range range;
  Field coefficient;
};

// Returns maximal intervals of equal total coefficient: [0, 3) and [3, 8) with 1 -> [0, 8) with 1.
std::vector<WeightedRange> merge_ranges(const std::vector<WeightedRange>& intervals) {
  std::vector<std::int64_t> cuts;
  for (const auto& i : intervals) {
    cuts.push_back(i.range.begin);
    cuts.push_back(i.range.end);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<WeightedRange> out;
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

// Renames bound indices `from` to `to`.
void rebind(ScalarTerm& term, const std::vector<IndexVar>& from, const std::vector<IndexVar>& to) {
  for (std::size_t k = 0; k < from.size(); ++k) {
    const auto range = term.domain.find(from[k])->range;
    std::erase_if(term.domain.ranges, [&](const VarRange& r) { return r.var == from[k]; });
    substitute(term, from[k], Linear::of(to[k]));
    term.domain.ranges.push_back({to[k], range, true});
  }
}

// Terms that differ in ranges alone. Their bound indices share names.
struct JoinableTerms {
  std::vector<IndexVar> lines;  // indices that have a range in every term
  Sum terms;
};

// Joins those terms along index `line` whose other ranges are equal.
void join_along(JoinableTerms& group, IndexVar line) {
  std::map<std::vector<std::int64_t>, std::vector<std::size_t>> rows;
  for (std::size_t i = 0; i < group.terms.size(); ++i) {
    std::vector<std::int64_t> others;
    for (auto v : group.lines) {
      if (v == line) continue;
      const auto& r = group.terms[i].domain.find(v)->range;
      others.insert(others.end(), {r.begin, r.end});
    }
    rows[others].push_back(i);
  }
  Sum next;
  for (const auto& [others, row] : rows) {
    std::vector<WeightedRange> intervals;
    intervals.reserve(row.size());
    for (auto i : row) {
      intervals.push_back({group.terms[i].domain.find(line)->range, group.terms[i].coefficient});
    }
    for (const auto& interval : merge_ranges(intervals)) {
      auto t = group.terms[row[0]];
      t.domain.find(line)->range = interval.range;
      t.coefficient = interval.coefficient;
      next.push_back(std::move(t));
    }
  }
  group.terms = std::move(next);
}

void join_terms(JoinableTerms& group) {
  if (group.lines.empty()) {
    for (std::size_t i = 1; i < group.terms.size(); ++i) {
      group.terms[0].coefficient += group.terms[i].coefficient;
    }
    group.terms.resize(group.terms[0].coefficient == Field(0) ? 0 : 1);
    return;
  }
  std::size_t before = 0;
  do {
    before = group.terms.size();
    for (auto line : group.lines) join_along(group, line);
  } while (group.terms.size() < before && group.terms.size() > 1);
}

// Returns a cheap hash that ignores names. It is equal if keys without ranges are equal.
Hash hash_ignoring_names(const Linear& e) {
  Hash h = static_cast<Hash>(e.constant);
  for (const auto& [unused, n] : e.parts) h += mix(static_cast<Hash>(n));
  return mix(h);
}

Hash hash_ignoring_names(const ScalarTerm& term) {
  const auto& domain = term.domain;
  Hash h = static_cast<Hash>(std::ranges::count(domain.ranges, true, &VarRange::bound));
  for (const auto& e : domain.guards) h += mix(hash_ignoring_names(e) + 1);
  for (const auto& e : domain.zeros) h += mix(hash_ignoring_names(e) + 2);
  for (const auto& atom : term.atoms) {
    Hash a = hash_combine(static_cast<Hash>(atom.kind), static_cast<Hash>(atom.id));
    for (const auto& e : atom.at) a = hash_combine(a, hash_ignoring_names(e));
    h += hash_combine(a, atom.arguments.size());
  }
  return h;
}

}  // namespace

Sum Algebra::merge_terms(Sum terms) {
  if (terms.size() < 2) return terms;
  std::map<Hash, std::vector<std::size_t>> by_hash;
  for (std::size_t i = 0; i < terms.size(); ++i)
    by_hash[hash_ignoring_names(terms[i])].push_back(i);
  Sum out;
  std::map<Key, std::vector<std::size_t>> groups;
  std::vector<std::vector<IndexVar>> orders(terms.size());
  for (const auto& [unused, members] : by_hash) {
    if (members.size() == 1) out.push_back(std::move(terms[members[0]]));
    for (auto i : members) {
      if (members.size() == 1) continue;
      auto keyed = make_key(terms[i], false);
      orders[i] = std::move(keyed.order);
      groups[std::move(keyed.key)].push_back(i);
    }
  }
  for (auto& [unused, members] : groups) {
    JoinableTerms group{orders[members[0]], {}};
    for (auto i : members) {
      if (i != members[0]) {
        // Renames in two steps, since terms may have the same names in another order.
        std::vector<IndexVar> passing;
        for (auto old : orders[i]) passing.push_back(create_index(extents_[old]));
        rebind(terms[i], orders[i], passing);
        rebind(terms[i], passing, orders[members[0]]);
      }
      group.terms.push_back(std::move(terms[i]));
    }
    if (members.size() > 1) join_group(group.lines, group.terms);
    std::ranges::move(group.terms, std::back_inserter(out));
  }
  return out;
}

// Joins `terms` along `lines` and along their free indices. Each free index first gets a range in
// every term, and loses it again if it excludes nothing.
void Algebra::join_group(std::vector<IndexVar> lines, Sum& terms) const {
  for (const auto& t : terms) {
    for (const auto& r : t.domain.ranges) {
      if (!r.bound && std::ranges::find(lines, r.var) == lines.end()) lines.push_back(r.var);
    }
  }
  for (auto& t : terms) {
    for (auto v : lines) {
      if (t.domain.find(v) == nullptr) t.domain.ranges.push_back({v, compute_range(v, {}), false});
    }
  }
  JoinableTerms group{std::move(lines), std::move(terms)};
  join_terms(group);
  terms = std::move(group.terms);
  for (auto& t : terms) {
    std::erase_if(t.domain.ranges, [&](const VarRange& r) {
      return !r.bound && compute_range(r.var, Domain{}) == r.range;
    });
  }
}

}  // namespace tandem::verify
