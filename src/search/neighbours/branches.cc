#include "search/neighbours/branches.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "predict/task_work.h"
#include "search/limits.h"
#include "search/neighbours/descent.h"
#include "search/neighbours/table_placement.h"
#include "strategies/packing.h"

namespace tandem::search {

namespace {

using graph::NodeId;
using machine::DigitMask;
using machine::DigitRole;
using machine::DigitUse;

// Returns, by node, the operand of `join` that all paths from the node to the outputs go through;
// -1 for nodes without one.
std::vector<int> find_operands_reached(const graph::Graph& graph,
                                       const std::vector<std::vector<NodeId>>& consumers,
                                       NodeId join) {
  constexpr int kNone = -1;
  std::vector<int> out(graph.size(), kNone);
  const auto inputs = graph.inputs(join);
  for (std::size_t n = join.index(); n-- > 0;) {
    const auto& users = consumers[n];
    if (users.empty()) continue;
    const auto reached = [&](NodeId user) {
      if (user != join) return out[user.index()];
      const auto is_it = [n](NodeId input) { return input.index() == n; };
      if (std::ranges::count_if(inputs, is_it) != 1) return kNone;
      return static_cast<int>(std::ranges::find_if(inputs, is_it) - inputs.begin());
    };
    const auto first = reached(users[0]);
    const bool is_one =
        std::ranges::all_of(users, [&](NodeId user) { return reached(user) == first; });
    if (is_one) out[n] = first;
  }
  return out;
}

Bytes count_weight_bytes(const graph::Graph& graph, const std::vector<NodeId>& nodes) {
  Bytes out;
  for (auto id : nodes) {
    if (is_weight(graph.node(id))) out += graph.node(id).type.whole_bytes();
  }
  return out;
}

std::vector<std::vector<NodeId>> find_branches_before(
    const graph::Graph& graph, const std::vector<std::vector<NodeId>>& consumers, NodeId join) {
  std::vector<std::vector<NodeId>> out(graph.inputs(join).size());
  const auto reached = find_operands_reached(graph, consumers, join);
  for (auto id : graph.ids()) {
    const auto operand = reached[id.index()];
    if (operand >= 0) out[static_cast<std::size_t>(operand)].push_back(id);
  }
  std::erase_if(out, [&](const auto& nodes) {
    return count_weight_bytes(graph, nodes) == Bytes{} ||
           std::ranges::none_of(
               nodes, [&](NodeId id) { return graph.node(id).op.role() == ops::Role::kCompute; });
  });
  return out;
}

// Tries other placements for the branches of one plan.
class Placing {
 public:
  Placing(CandidatePool& pool, const Candidate& plan, const Branches& branches)
      : pool_(pool),
        plan_(plan),
        graph_(plan.rewritten ? plan.rewritten->graph : pool.model()),
        problem_(graph_, pool.digits()),
        consumers_(graph_.consumers()),
        branches_(branches.nodes),
        branch_of_(graph_.size(), branches_.size()) {
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      operations_.push_back(count_operations(branches_[b]));
      class_.push_back(compute_class(branches_[b]));
      for (auto id : branches_[b]) branch_of_[id.index()] = b;
    }
    set_places();
  }

  void search() {
    const auto best = pool_.result().best->simulation.iteration;
    std::vector<Places> alike;
    for (const auto& place : places_) alike.emplace_back(branches_.size(), place);
    if (const auto first = find_best(alike, limits::kAlikeTooSlow * best)) descend(*first);
  }

 private:
  // A placement of one branch: at one coordinate of the `idle` digits. On the other digits it stays
  // as in the plan, or each of its operators is split along the batch.
  struct BranchPlacement {
    DigitMask idle = 0;
    bool along_batch = false;
    auto operator<=>(const BranchPlacement&) const = default;
  };
  using Places = std::vector<BranchPlacement>;  // by branch

  struct TimedBranchPlacement {
    Places places;
    Seconds seconds;
  };

  [[nodiscard]] const machine::Digits& digits() const { return pool_.digits(); }

  // Lists placements that are idle on the outermost digits or on the innermost ones.
  void set_places() {
    const auto all = digits().all();
    for (std::size_t i = 1; i <= digits().count(); ++i) {
      const auto outermost = (DigitMask{1} << i) - 1;
      places_.push_back({outermost});
      if (outermost == all) continue;
      places_.push_back({outermost, true});
      places_.push_back({all & ~outermost});
    }
  }

  [[nodiscard]] double count_operations(const std::vector<NodeId>& nodes) const {
    double out = 0;
    for (auto id : nodes) {
      const auto& node = graph_.node(id);
      if (node.op.role() != ops::Role::kCompute) continue;
      std::vector<TensorType> types;
      for (auto input : graph_.inputs(id)) types.push_back(graph_.node(input).type);
      out += predict::forward_flops(node.op, types, node.type).value;
    }
    return out;
  }

  // Returns a hash that is equal for branches with the same operators and types.
  [[nodiscard]] Hash compute_class(const std::vector<NodeId>& nodes) const {
    Hash out = 0;
    for (auto id : nodes) {
      out = hash_combine(out, graph_.node(id).op.hash());
      out = hash_combine(out, hash_type(graph_.node(id).type));
    }
    return out;
  }

  void descend(TimedBranchPlacement now) {
    while (const auto next = find_best(vary_one_branch(now.places), now.seconds)) now = *next;
  }

  // Returns the placements that differ from `now` in one branch. Of equivalent branches with equal
  // placements only the first one is moved.
  [[nodiscard]] std::vector<Places> vary_one_branch(const Places& now) const {
    std::vector<Places> out;
    std::set<std::pair<Hash, BranchPlacement>> seen;
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      if (!seen.emplace(class_[b], now[b]).second) continue;
      const auto change = [&](const BranchPlacement& place) {
        if (place == now[b]) return;
        out.push_back(now);
        out.back()[b] = place;
      };
      change({});
      for (const auto& place : places_) change(place);
    }
    return out;
  }

  std::optional<TimedBranchPlacement> find_best(const std::vector<Places>& all, Seconds than) {
    const auto best = find_fastest_change(pool_, all, left_, than, [this](const Places& places) {
      return make_placed_candidate(places);
    });
    if (!best) return std::nullopt;
    return TimedBranchPlacement{all[best->first], best->second};
  }

  // Packs the branches onto devices: the one with most operations first, each at the place with the
  // least load so far. Returns nullopt if the batch cannot be split so far, or if a reader needs
  // partial sums that no operator produces.
  [[nodiscard]] std::optional<Candidate> make_placed_candidate(const Places& places) const {
    std::vector<strategies::Load> loads;
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      const auto devices = digits().group_size(digits().all() & ~places[b].idle);
      loads.push_back({Bytes{operations_[b] / static_cast<double>(devices)}, places[b].idle});
    }
    const auto ranks = strategies::pack(loads, digits());
    auto out = plan_;
    out.name = "search:branches";
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      if (places[b].along_batch && !split_along_batch(branches_[b], places[b].idle, out.choices)) {
        return std::nullopt;
      }
      for (auto id : branches_[b])
        place_at_rank(id, places[b].idle, ranks[b], out.choices[id.index()]);
    }
    if (!is_legal(out)) return std::nullopt;
    return out;
  }

  // Returns false if an operator of the branch cannot be split along the batch.
  [[nodiscard]] bool split_along_batch(const std::vector<NodeId>& branch, DigitMask idle,
                                       std::vector<plan::Choice>& choices) const {
    for (auto id : branch) {
      const auto& node = problem_.nodes[id.index()];
      if (graph_.node(id).op.role() != ops::Role::kCompute) continue;
      const auto batch = node.batch();
      if (!batch || !is_allowed(node, *batch, pool_.options().dims)) return false;
      machine::NodeLayout layout;
      for (std::size_t i = 0; i < digits().count(); ++i) {
        if (machine::has_digit(idle, i)) continue;
        if (!machine::may_cut_next(node.signature, *batch, layout, digits(), i)) return false;
        layout.uses[i] = DigitUse::factor(*batch);
      }
      choices[id.index()].node = layout;
      const auto inputs = graph_.inputs(id);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (graph_.node(inputs[i]).op.role() == ops::Role::kCompute) continue;
        if (branch_of_[inputs[i].index()] != branch_of_[id.index()]) continue;
        choices[inputs[i].index()].source =
            compute_input_layout(node.signature, layout, digits().count(), i);
      }
    }
    return true;
  }

  // Puts the node at the coordinates of `rank` on the `idle` digits. Other digits keep their use.
  void place_at_rank(NodeId id, DigitMask idle, std::int64_t rank, plan::Choice& choice) const {
    for (std::size_t i = 0; i < digits().count(); ++i) {
      if (!machine::has_digit(idle, i)) continue;
      const auto place = digits().coordinate_of_rank(rank, idle, i);
      if (graph_.node(id).op.role() == ops::Role::kCompute) {
        choice.node.uses[i] = DigitUse::idle(place);
      } else {
        choice.source.set(i, DigitRole::idle(place));
      }
    }
  }

  [[nodiscard]] bool is_legal(const Candidate& candidate) const {
    const auto n = digits().count();
    return std::ranges::all_of(graph_.ids(), [&](NodeId user) {
      if (graph_.node(user).op.role() != ops::Role::kCompute) return true;
      const auto inputs = graph_.inputs(user);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto from = inputs[i].index();
        const bool leaves = branch_of_[from] != branch_of_[user.index()];
        if (!leaves || graph_.node(inputs[i]).op.role() != ops::Role::kCompute) continue;
        const auto wanted = compute_input_layout(problem_.nodes[user.index()].signature,
                                                 candidate.choices[user.index()].node, n, i);
        const auto made =
            compute_output_layout(problem_.nodes[from].signature, candidate.choices[from].node, n);
        if ((wanted.digits(DigitRole::kPartial) & ~made.digits(DigitRole::kPartial)) != 0) {
          return false;
        }
      }
      return true;
    });
  }

  CandidatePool& pool_;
  const Candidate& plan_;
  const graph::Graph& graph_;
  const strategies::Problem problem_;
  const std::vector<std::vector<NodeId>> consumers_;
  const std::vector<std::vector<NodeId>>& branches_;
  std::vector<std::size_t> branch_of_;  // by node; branches_.size() for nodes in no branch
  std::vector<double> operations_;      // by branch
  std::vector<Hash> class_;
  Places places_;
  std::size_t left_ = limits::kMostBranchesPlaced;  // simulations that may still run
};

}  // namespace

Branches find_branches(const graph::Graph& graph) {
  const auto consumers = graph.consumers();
  std::vector<NodeId> all;
  for (auto id : graph.ids()) all.push_back(id);
  const auto weights = count_weight_bytes(graph, all);
  Branches out;
  Bytes most;  // weights of all branches but the largest
  for (auto join : graph.ids()) {
    const auto& node = graph.node(join);
    if (node.op.role() != ops::Role::kCompute || graph.inputs(join).size() < 2) continue;
    auto nodes = find_branches_before(graph, consumers, join);
    if (nodes.size() < 2) continue;
    Bytes sum;
    Bytes largest;
    for (const auto& branch : nodes) {
      const auto own = count_weight_bytes(graph, branch);
      sum += own;
      largest = std::max(largest, own);
    }
    if (sum - largest <= most) continue;
    most = sum - largest;
    out = {std::move(nodes), sum / weights};
  }
  return out;
}

bool place_branches(CandidatePool& pool, const std::vector<Candidate>& plans) {
  if (pool.is_large() || !pool.has_equal_devices() || plans.empty()) return false;
  // Embedding tables are branches, too; search/neighbours/table_placement.h places them better.
  if (has_tables_to_place(pool, plans[0])) return false;
  const auto& rewritten = plans[0].rewritten;
  const auto branches = find_branches(rewritten ? rewritten->graph : pool.model());
  if (branches.share < limits::kBranchWeights) return false;
  // Plans that differ only in recomputation lead to the same placements.
  std::vector<std::vector<machine::NodeLayout>> taken;
  for (const auto& plan : plans) {
    if (!is_for_one_pass(plan)) continue;
    auto layouts = get_node_layouts(plan.choices);
    if (std::ranges::find(taken, layouts) != taken.end()) continue;
    if (pool.is_over() || taken.size() == limits::kBranchedPlans) break;
    taken.push_back(std::move(layouts));
    Placing(pool, plan, branches).search();
  }
  return true;
}

}  // namespace tandem::search
