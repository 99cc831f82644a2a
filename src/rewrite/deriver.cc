#include "rewrite/deriver.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "rewrite/matches.h"

namespace tandem::rewrite {

namespace {

// Number of nodes of each kind. A kind is an operator, a type, and the operators of the operands.
using Census = std::unordered_map<Hash, int>;

Census take_census(const Draft& draft) {
  Census out;
  for (auto slot : draft.order()) {
    Hash h = hash_combine(draft.node(slot).op_hash, draft.node(slot).type.value);
    for (auto input : draft.inputs(slot)) h = hash_combine(h, draft.node(input).op_hash);
    ++out[h];
  }
  return out;
}

int count_differences(const Census& census, const Census& wanted) {
  int out = 0;
  for (const auto& [kind, count] : census) {
    const auto at = wanted.find(kind);
    out += std::abs(count - (at == wanted.end() ? 0 : at->second));
  }
  for (const auto& [kind, count] : wanted) out += census.contains(kind) ? 0 : count;
  return out;
}

std::vector<std::int64_t> list_degrees(const std::vector<const graph::Graph*>& graphs) {
  std::set<std::int64_t> out;
  for (const auto* graph : graphs) {
    for (auto id : graph->ids()) {
      const auto& op = graph->node(id).op;
      const auto values = parse_attribute_values(op);
      for (std::size_t a = 0; a < values.size(); ++a) {
        const auto* degree = std::get_if<std::int64_t>(&values[a]);
        if (op.spec().attributes[a].first == "degree" && degree != nullptr) out.insert(*degree);
      }
    }
  }
  if (out.empty()) out.insert(2);
  return {out.begin(), out.end()};
}

// The graphs that are reachable from one of the two graphs.
class DerivationFrontier {
 public:
  struct DerivationVisit {
    Draft draft;
    std::size_t parent = 0;
    Match match;
    std::size_t steps = 0;
  };

  DerivationFrontier(const RuleSet& rules, const Draft& start, const Draft& other)
      : rules_(rules), wanted_(take_census(other)) {
    add({start, 0, {}, 0});
  }

  [[nodiscard]] const std::vector<DerivationVisit>& visits() const { return visits_; }
  [[nodiscard]] bool has_more() const { return open_ > 0; }
  [[nodiscard]] bool is_cut() const { return is_cut_; }  // some paths were not followed
  [[nodiscard]] std::optional<std::size_t> find(Hash hash) const {
    const auto at = seen_.find(hash);
    return at == seen_.end() ? std::nullopt : std::optional(at->second);
  }

  // Expands the best open graph by one step, in all ways until `room` more graphs are added.
  // Returns whether a result is known at the other end. That result is then the last visit.
  bool expand(const DerivationFrontier& other, std::size_t most_steps, std::size_t room) {
    const auto visit = take_next();
    const auto steps = visits_[visit].steps;
    if (steps == most_steps) {
      is_cut_ = true;
      return false;
    }
    const auto draft = visits_[visit].draft;
    std::vector<Slot> changed;
    for (const auto& match : Matches::find(rules_, draft).all()) {
      auto next = rules_.apply(draft, match, changed);
      if (!next || seen_.contains(next->hash())) continue;
      const bool met = other.find(next->hash()).has_value();
      add({std::move(*next), visit, match, steps + 1});
      if (met) return true;
      is_cut_ = --room == 0;
      if (is_cut_) return false;
    }
    return false;
  }

  // Returns the steps from the start to `visit`.
  [[nodiscard]] Derivation trace_path(std::size_t visit) const {
    Derivation out;
    for (auto v = visit; v != 0; v = visits_[v].parent) {
      const auto& [draft, parent, match, steps] = visits_[v];
      out.push_back(make_derivation_step(rules_, match, visits_[parent].draft, draft));
    }
    std::ranges::reverse(out);
    return out;
  }

 private:
  // Priority of an open graph: lowest estimate, then fewest steps, then oldest.
  struct DerivationPriority {
    std::size_t estimate = 0;
    std::size_t steps = 0;
    std::size_t visit = 0;
    auto operator<=>(const DerivationPriority&) const = default;
  };
  using Queue =
      std::priority_queue<DerivationPriority, std::vector<DerivationPriority>, std::greater<>>;

  void add(DerivationVisit visit) {
    seen_.emplace(visit.draft.hash(), visits_.size());
    const auto differences =
        static_cast<std::size_t>(count_differences(take_census(visit.draft), wanted_));
    nearest_.push({differences, visit.steps, visits_.size()});
    shortest_.push({2 * differences + visit.steps, visit.steps, visits_.size()});
    visits_.push_back(std::move(visit));
    is_open_.push_back(true);
    ++open_;
  }

  // Returns the graph to expand next. The first 64 times it has the fewest differences. After that,
  // every second one minimizes 2 * differences + steps. This leaves regions where no step reduces
  // the differences.
  std::size_t take_next() {
    constexpr std::size_t kStraightAhead = 64;
    auto& queue = taken_ < kStraightAhead || taken_ % 2 == 0 ? nearest_ : shortest_;
    ++taken_;
    while (!is_open_[queue.top().visit]) queue.pop();
    const auto visit = queue.top().visit;
    queue.pop();
    is_open_[visit] = false;
    --open_;
    return visit;
  }

  const RuleSet& rules_;
  const Census wanted_;
  std::vector<DerivationVisit> visits_;
  std::unordered_map<Hash, std::size_t> seen_;
  Queue nearest_;
  Queue shortest_;
  std::vector<bool> is_open_;  // by visit: whether it is still to be expanded
  std::size_t open_ = 0;
  std::size_t taken_ = 0;
  bool is_cut_ = false;
};

// Returns a step of one rule from `before` to `after`, or nullopt if no rule gives it.
std::optional<DerivationStep> find_step(const RuleSet& rules, const Draft& before,
                                        const Draft& after) {
  std::vector<Slot> changed;
  for (const auto& match : Matches::find(rules, before).all()) {
    const auto next = rules.apply(before, match, changed);
    if (next && next->hash() == after.hash())
      return make_derivation_step(rules, match, before, *next);
  }
  return std::nullopt;
}

// Stores in `out` the paths from both ends to the graph where they meet. Reverses the path from the
// second end as far as rules allow.
void join_paths(const RuleSet& rules, const DerivationFrontier& from, std::size_t there,
                const DerivationFrontier& to, std::size_t here, DerivationOutcome& out) {
  out.is_found = true;
  out.steps = from.trace_path(there);
  for (; here != 0; here = to.visits()[here].parent) {
    const auto& visit = to.visits()[here];
    const auto step = find_step(rules, visit.draft, to.visits()[visit.parent].draft);
    if (!step) break;
    out.steps.push_back(*step);
  }
  out.back = to.trace_path(here);
}

}  // namespace

std::vector<Rule> add_reversals(const std::vector<Rule>& rules) {
  auto out = rules;
  std::set<std::string> names;
  for (const auto& rule : rules) names.insert(rule.name);
  for (const auto& rule : rules) {
    const auto name = rule.name + "-reversed";
    if (rule.name.ends_with("-reversed") || names.contains(name)) continue;
    try {
      out.push_back(reverse_rule(rule, name));
    } catch (const UserError&) {  // the target does not bind all variables of the source
    }
  }
  return out;
}

const RuleSet& Deriver::get_rule_set(const std::vector<std::int64_t>& degrees) {
  auto& set = sets_[degrees];
  if (!set) {
    const RuleSet::Limits limits{.degrees = degrees, .matches = 100'000};
    set = std::make_unique<const RuleSet>(rules_, dictionary_, limits);
  }
  return *set;
}

DerivationOutcome Deriver::derive(const graph::Graph& from, const graph::Graph& to,
                                  const DeriveLimits& limits) {
  const auto& set = get_rule_set(list_degrees({&from, &to}));
  const auto start = Draft::from_graph(from, dictionary_);
  const auto target = Draft::from_graph(to, dictionary_);
  DerivationFrontier first(set, start, target);
  DerivationFrontier second(set, target, start);
  DerivationOutcome out;
  const auto looked_at = [&] { return first.visits().size() + second.visits().size(); };
  if (start.hash() == target.hash()) out.is_found = true;
  while (!out.is_found && looked_at() < limits.graphs && (first.has_more() || second.has_more())) {
    // Expand the end with fewer visited graphs.
    const bool forward =
        !second.has_more() || (first.has_more() && first.visits().size() <= second.visits().size());
    auto& end = forward ? first : second;
    const auto& other = forward ? second : first;
    if (!end.expand(other, limits.steps, limits.graphs - looked_at())) continue;
    const auto met = end.visits().back().draft.hash();
    join_paths(set, first, *first.find(met), second, *second.find(met), out);
  }
  out.graphs = looked_at();
  out.is_complete = !out.is_found && !first.has_more() && !second.has_more() && !first.is_cut() &&
                    !second.is_cut();
  return out;
}

}  // namespace tandem::rewrite
