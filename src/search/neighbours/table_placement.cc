#include "search/neighbours/table_placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "search/limits.h"
#include "search/neighbours/descent.h"
#include "strategies/packing.h"

namespace tandem::search {

namespace {

using graph::NodeId;
using machine::DigitMask;
using machine::DigitUse;
using machine::NodeLayout;

class TablePlacer {
 public:
  TablePlacer(CandidatePool& pool, const std::vector<Candidate>& plans)
      : pool_(pool),
        plans_(plans),
        from_(&plans[0]),
        graph_(from_->rewritten ? from_->rewritten->graph : pool.model()),
        problem_(graph_, pool.digits()),
        consumers_(graph_.consumers()) {
    for (auto id : graph_.ids()) {
      if (graph_.node(id).op.role() != ops::Role::kCompute || !problem_.is_table(id)) continue;
      // A source with several readers is laid out as the others need it.
      const auto is_own = [&](NodeId i) {
        return graph_.node(i).op.role() == ops::Role::kSource && consumers_[i.index()].size() == 1;
      };
      if (!std::ranges::all_of(graph_.inputs(id), is_own)) continue;
      tables_.push_back(id);
      followers_.push_back(find_followers(id));
    }
  }

  // First places all tables equally, then moves them one by one, even if the equal placement is
  // slower than the plan. If that gains nothing, starts from the plan's own layouts. Finally
  // combines the tables with the other operators' layouts of the other plans.
  void search() {
    if (!are_worth_placing()) return;
    const auto best = pool_.result().best->simulation.iteration;
    auto alike = find_best_equal_placement();
    if (alike && alike->seconds > limits::kHopeless * pool_.options().beat) return;
    if (alike) alike = descend(*alike);
    if (!alike || alike->seconds > best) {
      from_ = &plans_[0];
      const auto other = descend({list_plan_layouts(), best});
      if (!alike || other.seconds < best) alike = other;
    }
    if (change_plan(*alike)) alike = descend(*alike);
    narrow(*alike);
  }

  [[nodiscard]] bool are_worth_placing() const {
    return tables_.size() >= 2 && hold_most_weights();
  }

  // Enters the layouts that another graph's plan gives to the tables of the same names.
  void place_as_in(const Candidate& other, const graph::Graph& of) {
    std::map<std::string, NodeLayout> known;
    for (auto id : of.ids()) known[of.node(id).name] = other.choices[id.index()].node;
    TimedTablePlacement now{{}, Seconds{std::numeric_limits<double>::infinity()}};
    for (auto id : tables_) {
      const auto at = known.find(graph_.node(id).name);
      if (at == known.end()) return;
      now.layouts.push_back(clear_places(at->second));
    }
    const auto best = pool_.result().best->simulation.iteration;
    if (change_plan(now) && now.seconds < best) descend(now);
  }

 private:
  using Layouts = std::vector<NodeLayout>;  // by table; idle digits have no place yet

  struct TimedTablePlacement {
    Layouts layouts;
    Seconds seconds;
  };

  [[nodiscard]] const machine::Digits& digits() const { return pool_.digits(); }

  Layouts list_plan_layouts() const {
    Layouts out;
    for (auto id : tables_) out.push_back(clear_places(from_->choices[id.index()].node));
    return out;
  }

  // Returns the fastest placement with equal layouts for all tables, and makes its plan `from_`.
  // Tries the other operators of every plan, since the best plan may have all of them on one
  // device.
  std::optional<TimedTablePlacement> find_best_equal_placement() {
    std::optional<TimedTablePlacement> out;
    std::vector<std::vector<plan::Choice>> seen;
    const auto* best = from_;
    auto left = limits::kMostTablesAlike;
    for (const auto& plan : plans_) {
      if (!is_for_one_pass(plan)) continue;
      auto others = plan.choices;
      for (auto id : tables_) others[id.index()] = {};
      if (std::ranges::find(seen, others) != seen.end()) continue;
      seen.push_back(std::move(others));
      from_ = &plan;
      const auto than = out ? out->seconds : Seconds{std::numeric_limits<double>::infinity()};
      if (auto found = find_best(list_equal_placements(list_plan_layouts()), than, left)) {
        out = std::move(found);
        best = from_;
      }
    }
    from_ = best;
    return out;
  }

  // Switches to the plan whose other operators go best with these layouts. Tables are placed from
  // the first place on. They may also start at the last place, next to operators that are all on
  // one device. Returns false if nothing is faster.
  bool change_plan(TimedTablePlacement& now) {
    const auto before = now.seconds;
    auto best = std::pair(from_, from_the_last_place_);
    for (const auto& plan : plans_) {
      if (!is_for_one_pass(plan)) continue;
      for (const bool last : {false, true}) {
        if (last && !are_all_places_nameable()) continue;
        std::tie(from_, from_the_last_place_) = std::pair(&plan, last);
        if (const auto made = find_best({now.layouts}, now.seconds)) {
          now = *made;
          best = {from_, last};
        }
      }
    }
    std::tie(from_, from_the_last_place_) = best;
    return now.seconds < before;
  }

  // Puts the other operators on one device, or on the few that share an inner level, and the tables
  // elsewhere. Small work finishes sooner on one device than when it is distributed. The readers of
  // the tables are on that device, too, or replicated on all.
  void narrow(const TimedTablePlacement& now) {
    left_ = limits::kMostNarrowed;
    is_narrowed_ = true;
    const auto wide = *from_;
    DigitMask idle = 0;
    for (std::size_t i = 0; i < digits().count(); ++i) {
      idle |= machine::bit(i);
      const bool ends_level =
          i + 1 == digits().count() || digits()[i].level != digits()[i + 1].level;
      if (!ends_level) continue;
      for (const bool has_copies : {false, true}) {
        const auto narrowed = make_idle_on(wide, idle, has_copies);
        from_ = &narrowed;
        descend_from_both_ends(now);
      }
    }
    from_ = &plans_[0];
  }

  void descend_from_both_ends(const TimedTablePlacement& now) {
    for (const bool last : {false, true}) {
      if (last && !are_all_places_nameable()) continue;
      from_the_last_place_ = last;
      const auto hopeless = limits::kHopeless * pool_.result().best->simulation.iteration;
      if (const auto made = find_best({now.layouts}, hopeless)) descend(*made);
    }
  }

  // Returns the operators that only depend on one table's rows, such as their sum. They stay with
  // the table: elsewhere more devices would compute them, each with kernels of its own.
  std::vector<NodeId> find_followers(NodeId table) const {
    std::vector<NodeId> out;
    for (auto at = table; consumers_[at.index()].size() == 1;) {
      at = consumers_[at.index()][0];
      if (graph_.inputs(at).size() != 1) break;
      out.push_back(at);
    }
    return out;
  }

  // Returns the plan with all operators idle on `mask`, except for the tables and what they read.
  // With `has_copies`, the readers of the tables are replicated instead.
  Candidate make_idle_on(const Candidate& plan, DigitMask mask, bool has_copies) const {
    auto out = plan;
    const auto reads_a_table = [&](NodeId id) {
      return std::ranges::any_of(graph_.inputs(id), [&](NodeId i) {
        for (std::size_t t = 0; t < tables_.size(); ++t) {
          if (i == (followers_[t].empty() ? tables_[t] : followers_[t].back())) return true;
        }
        return false;
      });
    };
    for (auto id : graph_.ids()) {
      auto& choice = out.choices[id.index()];
      const bool is_copied = has_copies && reads_a_table(id);
      for (std::size_t i = 0; i < digits().count(); ++i) {
        if (!machine::has_digit(mask, i)) continue;
        if (graph_.node(id).op.role() == ops::Role::kSource) {
          choice.source.set(i, machine::DigitRole::idle(0));
        } else {
          choice.node.uses[i] = is_copied ? DigitUse::kReplica : DigitUse::idle(0);
        }
      }
    }
    return out;
  }

  [[nodiscard]] bool are_all_places_nameable() const {
    for (std::size_t i = 0; i < digits().count(); ++i) {
      if (digits()[i].size > machine::DigitRole::kPlaces) return false;
    }
    return true;
  }

  // Returns whether tables hold most of the weights. Otherwise there is little to gain, and
  // simulations take long.
  [[nodiscard]] bool hold_most_weights() const {
    Bytes all;
    Bytes of_tables;
    for (auto id : graph_.ids()) {
      if (is_weight(graph_.node(id))) all += graph_.node(id).type.whole_bytes();
    }
    for (auto id : tables_) of_tables += problem_.weight_bytes(id);
    return of_tables > 0.5 * all;
  }

  static NodeLayout clear_places(NodeLayout layout) {
    for (auto& use : layout.uses) {
      if (use.is_idle()) use = DigitUse::kIdle;
    }
    return layout;
  }

  // Returns layouts that are idle on the outermost or the innermost digits and sharded along one
  // factor on the others. Layouts sharded on all digits come from the plans themselves; they are
  // only listed if the other operators are narrowed.
  const Layouts& get_layouts(NodeId id) {
    const auto [at, is_new] = layouts_.try_emplace({compute_class(id), is_narrowed_});
    if (is_new) at->second = list_layouts(id);
    return at->second;
  }
  Layouts list_layouts(NodeId id) const {
    const auto& node = problem_.nodes[id.index()];
    const auto n = digits().count();
    Layouts out;
    for (std::size_t idle = is_narrowed_ ? 0 : 1; idle <= n; ++idle) {
      for (const bool outermost : {true, false}) {
        const auto first = outermost ? std::size_t{0} : n - idle;
        for (ops::FactorId f = 0; f < node.signature.map.factors.size(); ++f) {
          if (const auto layout = split_outside(node, f, first, first + idle)) {
            if (std::ranges::find(out, *layout) == out.end()) out.push_back(*layout);
          }
        }
      }
    }
    return out;
  }

  // Returns nullopt if `f` cannot be split over these digits.
  std::optional<NodeLayout> split_outside(const strategies::AnalyzedNode& node, ops::FactorId f,
                                          std::size_t first, std::size_t last) const {
    NodeLayout out;
    for (std::size_t i = 0; i < digits().count(); ++i) {
      if (i >= first && i < last) continue;
      if (!is_allowed(node, f, pool_.options().dims) ||
          !machine::may_cut_next(node.signature, f, out, digits(), i)) {
        return std::nullopt;
      }
      out.uses[i] = DigitUse::factor(f);
    }
    return out;
  }

  // Returns placements with equal layouts. The first one is `now` with new places, since a plan may
  // have all tables at one place.
  std::vector<Layouts> list_equal_placements(const Layouts& now) {
    std::vector<Layouts> out = {now};
    for (const auto& layout : get_layouts(tables_[0])) {
      auto next = now;
      for (std::size_t t = 0; t < tables_.size(); ++t) {
        const auto& own = get_layouts(tables_[t]);
        if (std::ranges::find(own, layout) != own.end()) next[t] = layout;
      }
      if (next != now) out.push_back(std::move(next));
    }
    return out;
  }

  // Returns the placements that differ from `now` in one table. Of equivalent tables with equal
  // layouts only the first one is moved.
  std::vector<Layouts> vary_one_table(const Layouts& now) {
    std::vector<Layouts> out;
    std::set<std::pair<Hash, NodeLayout>> seen;
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      if (!seen.emplace(compute_class(tables_[t]), now[t]).second) continue;
      for (const auto& layout : get_layouts(tables_[t])) {
        if (layout == now[t]) continue;
        out.push_back(now);
        out.back()[t] = layout;
      }
    }
    return out;
  }

  Hash compute_class(NodeId id) const {
    Hash out = graph_.node(id).op.hash();
    for (auto i : graph_.inputs(id)) out = hash_combine(out, hash_type(graph_.node(i).type));
    return out;
  }

  TimedTablePlacement descend(TimedTablePlacement now) {
    while (const auto next = find_best(vary_one_table(now.layouts), now.seconds)) now = *next;
    return now;
  }

  std::optional<TimedTablePlacement> find_best(const std::vector<Layouts>& all, Seconds than) {
    return find_best(all, than, left_);
  }
  std::optional<TimedTablePlacement> find_best(const std::vector<Layouts>& all, Seconds than,
                                               std::size_t& left) {
    const auto best = find_fastest_change(
        pool_, all, left, than, [this](const Layouts& layouts) -> std::optional<Candidate> {
          auto made = make_placed_candidate(layouts);
          return is_legal(made) ? std::optional(std::move(made)) : std::nullopt;
        });
    if (!best) return std::nullopt;
    return TimedTablePlacement{all[best->first], best->second};
  }

  // Packs the tables onto devices: the largest first, each at the place with the least load so far.
  Candidate make_placed_candidate(const Layouts& layouts) const {
    std::vector<strategies::Load> loads;
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      DigitMask whole = 0;
      std::int64_t parts = 1;
      for (std::size_t i = 0; i < digits().count(); ++i) {
        if (layouts[t].uses[i].is_idle()) whole |= machine::bit(i);
        if (layouts[t].uses[i].is_factor()) parts *= digits()[i].size;
      }
      const auto bytes = problem_.weight_bytes(tables_[t]) / static_cast<double>(parts);
      loads.push_back({bytes, whole});
    }
    const auto ranks = strategies::pack(loads, digits());
    auto out = *from_;
    out.name = kSideBySide;
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      auto& layout = out.choices[tables_[t].index()].node;
      layout = layouts[t];
      for (std::size_t i = 0; i < digits().count(); ++i) {
        const auto whole = loads[t].whole;
        if (!machine::has_digit(whole, i)) continue;
        const auto rank =
            from_the_last_place_ ? digits().group_size(whole) - 1 - ranks[t] : ranks[t];
        layout.uses[i] = DigitUse::idle(digits().coordinate_of_rank(rank, whole, i));
      }
      const auto inputs = graph_.inputs(tables_[t]);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        out.choices[inputs[i].index()].source = compute_input_layout(
            problem_.nodes[tables_[t].index()].signature, layout, digits().count(), i);
      }
      follow(t, out);
    }
    return out;
  }

  // Lays out the followers of table `t`, as far as their inputs determine their layouts.
  void follow(std::size_t t, Candidate& out) const {
    auto at = tables_[t];
    for (auto follower : followers_[t]) {
      const auto read = compute_output_layout(problem_.nodes[at.index()].signature,
                                              out.choices[at.index()].node, digits().count());
      const auto layout = infer_node_layout(problem_.nodes[follower.index()].signature,
                                            std::span(&read, 1), digits());
      if (!layout) return;
      out.choices[follower.index()].node = *layout;
      at = follower;
    }
  }

  // Returns whether every reader gets what it needs. A reader may need partial sums of a table's
  // rows that no operator produces.
  bool is_legal(const Candidate& candidate) const {
    const auto n = digits().count();
    auto moved = tables_;
    for (const auto& some : followers_) moved.insert(moved.end(), some.begin(), some.end());
    return std::ranges::all_of(moved, [&](NodeId id) {
      const auto made = compute_output_layout(problem_.nodes[id.index()].signature,
                                              candidate.choices[id.index()].node, n)
                            .digits(machine::DigitRole::kPartial);
      return std::ranges::all_of(consumers_[id.index()], [&](NodeId user) {
        const auto inputs = graph_.inputs(user);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          if (inputs[i] != id) continue;
          const auto wanted = compute_input_layout(problem_.nodes[user.index()].signature,
                                                   candidate.choices[user.index()].node, n, i);
          if ((wanted.digits(machine::DigitRole::kPartial) & ~made) != 0) return false;
        }
        return true;
      });
    });
  }

  CandidatePool& pool_;
  const std::vector<Candidate>& plans_;
  const Candidate* from_;  // plan with the layouts of the other operators
  const graph::Graph& graph_;
  const strategies::Problem problem_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<NodeId> tables_;
  std::vector<std::vector<NodeId>> followers_;        // by table
  std::map<std::pair<Hash, bool>, Layouts> layouts_;  // by class, and by is_narrowed_
  std::size_t left_ = limits::kMostTablesPlaced;      // simulations that may still run
  bool from_the_last_place_ = false;
  bool is_narrowed_ = false;
};

bool may_place(CandidatePool& pool, const std::vector<Candidate>& plans) {
  if (pool.is_large() || pool.is_over() || !pool.has_equal_devices()) return false;
  return !plans.empty() && is_for_one_pass(plans[0]);
}

}  // namespace

bool has_tables_to_place(CandidatePool& pool, const Candidate& plan) {
  const std::vector<Candidate> plans = {plan};
  return may_place(pool, plans) && TablePlacer(pool, plans).are_worth_placing();
}

void place_tables(CandidatePool& pool, const std::vector<Candidate>& plans) {
  if (!may_place(pool, plans)) return;
  TablePlacer(pool, plans).search();
}

void place_tables_like(CandidatePool& pool, const std::vector<Candidate>& plans,
                       const Candidate& other) {
  if (pool.is_over() || plans.empty()) return;
  // Copied: `other` may be the pool's best plan, which entering candidates can replace.
  const auto like = other;
  const auto& of = like.rewritten ? like.rewritten->graph : pool.model();
  TablePlacer(pool, plans).place_as_in(like, of);
}

}  // namespace tandem::search
