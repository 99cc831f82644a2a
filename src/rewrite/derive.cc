#include "rewrite/derive.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "rewrite/matches.h"

namespace tandem::rewrite {

namespace {

// How often each kind of node occurs: operator, type, and the operators of its operands.
using Census = std::unordered_map<Hash, int>;

Census census_of(const Draft& draft) {
  Census out;
  for (auto slot : draft.order()) {
    Hash h = hash_combine(draft.node(slot).op_hash, draft.node(slot).type.value);
    for (auto input : draft.inputs(slot)) h = hash_combine(h, draft.node(input).op_hash);
    ++out[h];
  }
  return out;
}

int difference(const Census& census, const Census& wanted) {
  int out = 0;
  for (const auto& [kind, count] : census) {
    const auto at = wanted.find(kind);
    out += std::abs(count - (at == wanted.end() ? 0 : at->second));
  }
  for (const auto& [kind, count] : wanted) out += census.contains(kind) ? 0 : count;
  return out;
}

std::vector<std::int64_t> degrees_of(const std::vector<const graph::Graph*>& graphs) {
  std::set<std::int64_t> out;
  for (const auto* graph : graphs) {
    for (auto id : graph->ids()) {
      const auto& op = graph->node(id).op;
      const auto values = attribute_values(op);
      for (std::size_t a = 0; a < values.size(); ++a) {
        const auto* degree = std::get_if<std::int64_t>(&values[a]);
        if (op.spec().attributes[a].first == "degree" && degree != nullptr) out.insert(*degree);
      }
    }
  }
  if (out.empty()) out.insert(2);
  return {out.begin(), out.end()};
}

struct Visit {
  Draft draft;
  std::size_t parent = 0;
  Match match;
  std::size_t steps = 0;
};

// Fewest differences first, then fewest steps, then the oldest.
struct Place {
  int difference = 0;
  std::size_t steps = 0;
  std::size_t visit = 0;
  auto operator<=>(const Place&) const = default;
};

Derivation path_to(const std::vector<Visit>& visits, std::size_t last, const RuleSet& rules) {
  Derivation out;
  for (auto v = last; v != 0; v = visits[v].parent) {
    out.push_back(step_of(rules, visits[v].match, visits[visits[v].parent].draft, visits[v].draft));
  }
  std::ranges::reverse(out);
  return out;
}

}  // namespace

std::vector<Rule> with_reversals(const std::vector<Rule>& rules) {
  auto out = rules;
  std::set<std::string> names;
  for (const auto& rule : rules) names.insert(rule.name);
  for (const auto& rule : rules) {
    const auto name = rule.name + "-reversed";
    if (rule.name.ends_with("-reversed") || names.contains(name)) continue;
    try {
      out.push_back(reversed(rule, name));
    } catch (const UserError&) {  // the target does not bind all that the source has
    }
  }
  return out;
}

Derived derive(const graph::Graph& from, const graph::Graph& to, const std::vector<Rule>& rules,
               const DeriveLimits& limits) {
  Dictionary dictionary;
  const RuleSet set(rules, dictionary, {.degrees = degrees_of({&from, &to}), .matches = 100'000});
  const auto target = Draft::of(to, dictionary);
  const auto wanted = census_of(target);
  Derived out;
  std::vector<Visit> visits{{Draft::of(from, dictionary), 0, {}, 0}};
  std::unordered_map<Hash, std::size_t> seen{{visits[0].draft.hash(), 0}};
  std::priority_queue<Place, std::vector<Place>, std::greater<>> queue;
  queue.push({difference(census_of(visits[0].draft), wanted), 0, 0});
  if (visits[0].draft.hash() == target.hash()) out.derivation.emplace();
  std::vector<Slot> changed;
  bool is_cut = false;  // some paths were not followed
  while (!queue.empty() && !out.derivation) {
    const auto place = queue.top();
    queue.pop();
    if (place.steps == limits.steps) {
      is_cut = true;
      continue;
    }
    const auto draft = visits[place.visit].draft;
    for (const auto& match : Matches::find(set, draft).all()) {
      auto next = set.apply(draft, match, changed);
      if (!next || !seen.emplace(next->hash(), visits.size()).second) continue;
      const bool found = next->hash() == target.hash();
      queue.push({difference(census_of(*next), wanted), place.steps + 1, visits.size()});
      visits.push_back({std::move(*next), place.visit, match, place.steps + 1});
      if (found) {
        out.derivation = path_to(visits, visits.size() - 1, set);
        break;
      }
      is_cut = visits.size() >= limits.graphs;
      if (is_cut) break;
    }
    if (visits.size() >= limits.graphs) break;
  }
  out.graphs = visits.size();
  out.is_complete = queue.empty() && !is_cut && !out.derivation;
  return out;
}

}  // namespace tandem::rewrite
