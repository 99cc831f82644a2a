// For tests: finds the minimum search cost of a small graph by enumeration. Searches are compared
// with it.
//
// It knows what a plan may do and what that costs (CostModel). machine/node_layout.h defines the
// possible uses of an operator's digits. No operation converts a complete value to a partial sum.
// It shares nothing else with the search. Every operator takes every layout, and every tensor with
// several users takes every layout between them. An assignment is abandoned as soon as a lower
// bound of the rest exceeds the best. That bound is the rest's cost if all edges except those of a
// tree are free.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "predict/cost_model.h"
#include "strategies/weight_sharding.h"

namespace tandem::search {

class LayoutOracle {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr double kLess = 1 - 1e-9;  // smaller differences count as rounding

  // With `saves`, every weight with one reader may also be sharded, gathered once or for every
  // pass, and every result may be recomputed.
  LayoutOracle(const graph::Graph& model, const machine::Digits& digits, predict::CostModel& costs,
               bool saves = false)
      : model_(model),
        digits_(digits),
        costs_(costs),
        saves_(saves),
        users_(uses_of(model)),
        gradient_(graph::mark_gradient_nodes(model)),
        roles_(predict::find_kernel_roles(model, costs.software())),
        of_operator_(model.size()),
        of_tensor_(model.size()) {
    find_order();
    for (auto id : model.ids()) {
      if (!is_source(id)) add_operator(id);
    }
    for (auto id : model.ids()) {
      if (users_[id.index()].size() > 1) add_shared(id);
    }
    for (auto id : model.ids()) {
      if (!is_source(id)) add_edges(id);
    }
    put_in_order();
  }

  // Returns the least cost of all assignments that cost less than `below`; kNever if there is none.
  double least(const predict::Prices& prices, double below) {
    price(prices);
    best_ = below;
    found_ = false;
    visited_ = 0;
    std::vector<std::size_t> states(variables_.size());
    descend(0, 0, states);
    return found_ ? best_ : kNever;
  }

  // Returns the cost of an assignment of the operators, with shared tensors in their cheapest
  // layouts.
  double cost_of(const predict::Prices& prices, const std::vector<machine::NodeLayout>& layouts) {
    price(prices);
    for (auto& v : variables_) {
      for (std::size_t s = 0; s < v.layouts.size(); ++s) {
        if (v.layouts[s] != layouts[v.node.index()]) v.own[s] = kNever;
      }
    }
    bound();
    best_ = kNever;
    found_ = false;
    std::vector<std::size_t> states(variables_.size());
    descend(0, 0, states);
    return found_ ? best_ : kNever;
  }

  [[nodiscard]] std::size_t visited() const { return visited_; }  // full and partial assignments
  [[nodiscard]] const std::vector<std::vector<machine::NodeLayout>>& layouts() const {
    return all_layouts_;  // by node; empty for a source
  }

 private:
  using NodeId = graph::NodeId;
  using Layout = machine::Layout;
  using Role = machine::DigitRole;
  using Use = machine::DigitUse;

  // A variable: an operator's layout, or that of a tensor between its users.
  struct Variable {
    NodeId node;
    std::vector<machine::NodeLayout> layouts;      // of an operator
    std::vector<std::vector<Layout>> in;           // by operand, by state
    std::vector<Layout> out;                       // by state
    std::vector<std::vector<predict::Cost>> cost;  // by state: one for each way to save
    std::vector<double> own;                       // by state: price of the cheapest way
    std::vector<std::size_t> edges_to_earlier;     // edges to variables before it
    std::optional<std::size_t> parent;             // one of these, in the tree
  };
  struct Edge {
    std::size_t from = 0;
    std::size_t to = 0;
    std::vector<std::optional<predict::Cost>>
        cost;  // by states of `from`, then of `to`; nullopt: impossible
    std::vector<double> priced;
  };

  static std::vector<std::vector<std::pair<NodeId, std::size_t>>> uses_of(const graph::Graph& g) {
    std::vector<std::vector<std::pair<NodeId, std::size_t>>> out(g.size());
    for (auto id : g.ids()) {
      for (std::size_t i = 0; i < g.inputs(id).size(); ++i) {
        out[g.inputs(id)[i].index()].emplace_back(id, i);
      }
    }
    return out;
  }

  [[nodiscard]] bool is_source(NodeId id) const {
    return model_.node(id).op.role() == ops::Role::kSource;
  }
  [[nodiscard]] bool is_shared(NodeId id) const { return users_[id.index()].size() > 1; }

  // --- Which operators run before which ----------------------------------------------------------

  void find_order() {
    precedes_.assign(model_.size(), std::vector<bool>(model_.size()));
    for (auto id : model_.ids()) {
      for (auto i : model_.inputs(id)) {
        precedes_[i.index()][id.index()] = true;
        for (std::size_t n = 0; n < model_.size(); ++n) {
          if (precedes_[n][i.index()]) precedes_[n][id.index()] = true;
        }
      }
    }
  }

  // Returns whether every operator either has run before this tensor is complete, or waits.
  template <class Waits>
  [[nodiscard]] bool nothing_overlaps(NodeId tensor, Waits&& waits) const {
    for (auto id : model_.ids()) {
      if (is_source(id) || id == tensor || precedes_[id.index()][tensor.index()]) continue;
      if (!waits(id)) return false;
    }
    return true;
  }
  // Returns whether nothing overlaps a tensor on its way from its operator, or to one of several
  // users.
  [[nodiscard]] bool blocks(NodeId tensor) const {
    return nothing_overlaps(tensor,
                            [&](NodeId id) { return precedes_[tensor.index()][id.index()]; });
  }
  [[nodiscard]] bool blocks(NodeId tensor, NodeId user) const {
    return nothing_overlaps(
        tensor, [&](NodeId id) { return id == user || precedes_[user.index()][id.index()]; });
  }

  // --- Variables ---------------------------------------------------------------------------------

  void add_operator(NodeId id) {
    Variable v;
    v.node = id;
    const auto& s = get_node_signature(model_, id);
    v.in.resize(s.map.inputs.size());
    machine::NodeLayout now;
    std::vector<machine::NodeLayout> all;
    enumerate(s, 0, now, all);
    for (const auto& layout : all) {
      if (!can_have_operands(id, s, layout)) continue;
      v.layouts.push_back(layout);
      for (std::size_t i = 0; i < v.in.size(); ++i) {
        v.in[i].push_back(compute_input_layout(s, layout, digits_.count(), i));
      }
      v.out.push_back(compute_output_layout(s, layout, digits_.count()));
      v.cost.push_back(list_saving_costs(id, s, layout, operator_cost(id, s, layout)));
    }
    all_layouts_.resize(model_.size());
    all_layouts_[id.index()] = v.layouts;
    of_operator_[id.index()] = of_tensor_[id.index()] = variables_.size();
    variables_.push_back(std::move(v));
  }

  // Lists all layouts. Partial sums pass through one set of operands.
  void enumerate(const ops::Signature& s, std::size_t digit, machine::NodeLayout& now,
                 std::vector<machine::NodeLayout>& out) const {
    if (digit == digits_.count()) {
      out.push_back(now);
      return;
    }
    std::vector<Use> uses = {Use::kReplica};
    for (std::int64_t p = 0; p < digits_[digit].size; ++p) uses.push_back(Use::idle(p));
    for (ops::FactorId f = 0; f < s.map.factors.size(); ++f) {
      if (may_cut_next(s, f, now, digits_, digit)) uses.push_back(Use::factor(f));
    }
    for (std::size_t set = 0; set < s.partial_inputs.size(); ++set) {
      const auto other = [&](Use use) { return use.is_through() && use != Use::through(set); };
      if (std::none_of(now.uses.begin(), now.uses.begin() + static_cast<std::ptrdiff_t>(digit),
                       other)) {
        uses.push_back(Use::through(set));
      }
    }
    for (auto use : uses) {
      now.uses[digit] = use;
      enumerate(s, digit + 1, now, out);
    }
    now.uses[digit] = Use::kIdle;
  }

  // Returns whether operands can have the layouts. A source is never a partial sum, and sizes
  // divide into shards.
  [[nodiscard]] bool can_have_operands(NodeId id, const ops::Signature& s,
                                       const machine::NodeLayout& layout) const {
    for (std::size_t i = 0; i < s.map.inputs.size(); ++i) {
      const auto source = model_.inputs(id)[i];
      const auto wanted = compute_input_layout(s, layout, digits_.count(), i);
      if (!compute_parallel_shape(wanted, model_.node(source).type.shape.sizes, digits_))
        return false;
      if (is_source(source) && wanted.digits(Role::kPartial) != 0) return false;
    }
    return true;
  }

  predict::Cost operator_cost(NodeId id, const ops::Signature& s,
                              const machine::NodeLayout& layout) {
    const auto& node = model_.node(id);
    const auto types = model_.input_types(id);
    const auto inputs = model_.inputs(id);
    ops::InputMask differentiated = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (gradient_[inputs[i].index()]) differentiated |= ops::InputMask{1} << i;
    }
    auto out = costs_.operator_cost(node.op, s, types, node.type, layout, differentiated,
                                    get_role(roles_, id));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto wanted = compute_input_layout(s, layout, digits_.count(), i);
      out += costs_.halo_cost(types[i], s, i, wanted, gradient_[inputs[i].index()]);
      if (!is_weight(model_.node(inputs[i])) || is_shared(inputs[i])) continue;
      std::optional<Shape> looked_up;
      if (node.op.spec().row_sparse_operand == i) {
        const auto indices = compute_input_layout(s, layout, digits_.count(), 0);
        looked_up = compute_parallel_shape(indices, types[0].shape.sizes, digits_)->shard_shape();
      }
      out += weight_cost(inputs[i], wanted, looked_up ? &*looked_up : nullptr,
                         node.op.spec().matmul_operand == i);
    }
    return out;
  }

  // Returns the costs of all combinations of ways to save.
  std::vector<predict::Cost> list_saving_costs(NodeId id, const ops::Signature& s,
                                               const machine::NodeLayout& layout,
                                               const predict::Cost& as_it_is) {
    std::vector<predict::Cost> out = {as_it_is};
    if (!saves_) return out;
    const auto or_else = [&](const std::vector<predict::Cost>& more) {
      const auto before = out;
      for (const auto& m : more) {
        for (auto cost : before) out.push_back(cost += m);
      }
    };
    const auto& node = model_.node(id);
    for (std::size_t i = 0; i < model_.inputs(id).size(); ++i) {
      const auto source = model_.inputs(id)[i];
      const auto& weight = model_.node(source);
      if (is_shared(source) || !is_trained(weight) || node.op.spec().row_sparse_operand == i) {
        continue;
      }
      const auto used = compute_input_layout(s, layout, digits_.count(), i);
      const auto stored =
          strategies::shard_weight(used, weight.type.shape.sizes, digits_.all(), digits_);
      using Gathered = predict::CostModel::Gathered;
      or_else({costs_.sharded_storage_cost(weight.type, used, stored, Gathered::kOnce),
               costs_.sharded_storage_cost(weight.type, used, stored, Gathered::kForEachPass)});
    }
    if (gradient_[id.index()]) {
      or_else({costs_.recompute_cost(node.op, s, model_.input_types(id), node.type, layout,
                                     get_role(roles_, id))});
    }
    return out;
  }

  predict::Cost weight_cost(NodeId id, const Layout& layout, const Shape* looked_up,
                            bool of_matmul = false) {
    const auto& type = model_.node(id).type;
    if (!is_trained(model_.node(id))) {
      return costs_.frozen_weight_cost(type.shape.sizes, type.dtype, layout);
    }
    return costs_.weight_cost(type.shape.sizes, type.dtype, layout, looked_up, of_matmul);
  }

  // Adds the layout that a tensor's users share. A source has it from the beginning; an operator's
  // result is resharded to it.
  void add_shared(NodeId id) {
    Variable v;
    v.node = id;
    Layout now(digits_.count(), Role::kReplica);
    enumerate(id, 0, now, v.out);
    for (const auto& layout : v.out) {
      v.cost.push_back(
          {is_weight(model_.node(id)) ? weight_cost(id, layout, nullptr) : predict::Cost{}});
    }
    v.in = {v.out};
    const auto here = variables_.size();
    variables_.push_back(std::move(v));
    if (!is_source(id)) connect(*of_tensor_[id.index()], here, 0, id, blocks(id));
    of_tensor_[id.index()] = here;
  }

  void enumerate(NodeId id, std::size_t digit, Layout& now, std::vector<Layout>& out) const {
    const auto& sizes = model_.node(id).type.shape.sizes;
    if (digit == digits_.count()) {
      if (compute_parallel_shape(now, sizes, digits_)) out.push_back(now);
      return;
    }
    std::vector<Role> roles = {Role::kReplica};
    if (!is_source(id)) roles.push_back(Role::kPartial);
    for (std::int64_t p = 0; p < digits_[digit].size; ++p) roles.push_back(Role::idle(p));
    for (std::size_t d = 0; d < sizes.rank(); ++d) roles.push_back(Role::dim(d));
    for (auto role : roles) {
      now.set(digit, role);
      enumerate(id, digit + 1, now, out);
    }
    now.set(digit, Role::kReplica);
  }

  // --- Edges -------------------------------------------------------------------------------------

  void add_edges(NodeId id) {
    for (std::size_t i = 0; i < model_.inputs(id).size(); ++i) {
      const auto tensor = model_.inputs(id)[i];
      if (!of_tensor_[tensor.index()]) continue;
      const bool alone = is_shared(tensor) ? blocks(tensor, id) : blocks(tensor);
      connect(*of_tensor_[tensor.index()], *of_operator_[id.index()], i, tensor, alone);
    }
  }

  void connect(std::size_t from, std::size_t to, std::size_t operand, NodeId tensor, bool blocks) {
    const auto& type = model_.node(tensor).type;
    std::optional<DType> gradient;
    if (gradient_[tensor.index()]) {
      gradient = is_weight(model_.node(tensor)) ? costs_.gradient_dtype(type.dtype) : type.dtype;
    }
    Edge edge{from, to, {}, {}};
    std::map<std::pair<Layout, Layout>, std::optional<predict::Cost>> known;
    for (const auto& has : variables_[from].out) {
      for (const auto& wanted : variables_[to].in[operand]) {
        const auto [at, fresh] = known.try_emplace({has, wanted});
        const auto made = wanted.digits(Role::kPartial) & ~has.digits(Role::kPartial);
        if (fresh && made == 0)
          at->second = costs_.reshard_cost(type, has, wanted, gradient, blocks);
        edge.cost.push_back(at->second);
      }
    }
    edges_.push_back(std::move(edge));
  }

  // Puts a shared tensor after the operator that computes it and before its users.
  void put_in_order() {
    std::vector<std::size_t> order(variables_.size());
    for (std::size_t v = 0; v < order.size(); ++v) order[v] = v;
    std::ranges::stable_sort(order, {}, [&](std::size_t v) {
      const auto node = variables_[v].node;
      if (is_source(node)) return std::pair(users_[node.index()][0].first.index(), 0);
      return std::pair(node.index(), variables_[v].layouts.empty() ? 2 : 1);
    });
    std::vector<Variable> sorted;
    std::vector<std::size_t> place(order.size());
    for (std::size_t p = 0; p < order.size(); ++p) {
      place[order[p]] = p;
      sorted.push_back(std::move(variables_[order[p]]));
    }
    variables_ = std::move(sorted);
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      auto& edge = edges_[e];
      edge.from = place[edge.from];
      edge.to = place[edge.to];
      CHECK(edge.from < edge.to);
      variables_[edge.to].edges_to_earlier.push_back(e);
    }
  }

  // --- Enumeration -------------------------------------------------------------------------------

  void price(const predict::Prices& prices) {
    for (auto& v : variables_) {
      v.own.clear();
      for (const auto& ways : v.cost) {
        double least = kNever;
        for (const auto& c : ways) least = std::min(least, prices.price(c));
        v.own.push_back(least);
      }
    }
    for (auto& e : edges_) {
      e.priced.clear();
      for (const auto& c : e.cost) e.priced.push_back(c ? prices.price(*c) : kNever);
    }
    bound();
  }

  // Makes the last variable connected before each variable its parent.
  void bound() {
    children_.assign(variables_.size(), {});
    pending_.assign(variables_.size(), {});
    for (std::size_t v = variables_.size(); v-- > 0;) {
      auto& variable = variables_[v];
      std::vector<double> here = variable.own;
      for (auto child : children_[v]) {
        for (std::size_t s = 0; s < here.size(); ++s) here[s] += pending_[child][s];
      }
      variable.parent.reset();
      for (auto e : variable.edges_to_earlier) {
        variable.parent = std::max(variable.parent.value_or(0), edges_[e].from);
      }
      // Without a parent there is one entry, whatever comes before.
      const auto rows = variable.parent ? variables_[*variable.parent].own.size() : 1;
      auto& least = pending_[v];
      least.assign(rows, kNever);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t s = 0; s < here.size(); ++s) {
          double now = here[s];
          for (auto e : variable.edges_to_earlier) {
            const auto& edge = edges_[e];
            if (edge.from == variable.parent) now += edge.priced[r * here.size() + s];
          }
          least[r] = std::min(least[r], now);
        }
      }
      if (variable.parent) children_[*variable.parent].push_back(v);
    }
    roots_ = 0;
    for (std::size_t v = 0; v < variables_.size(); ++v) {
      if (!variables_[v].parent) roots_ += pending_[v][0];
    }
  }

  // Enumerates states from `v` on. `cost` is that of the variables before `v`. `rest` is a lower
  // bound of what all others add.
  void descend(std::size_t v, double cost, std::vector<std::size_t>& states) {
    descend(v, cost, roots_, states);
  }
  void descend(std::size_t v, double cost, double rest, std::vector<std::size_t>& states) {
    ++visited_;
    if (v == variables_.size()) {
      best_ = cost;
      found_ = true;
      return;
    }
    const auto& variable = variables_[v];
    rest -= pending_[v][variable.parent ? states[*variable.parent] : 0];
    std::vector<std::pair<double, std::size_t>> order;  // by lower bound of the total cost
    std::vector<double> costs(variable.own.size());
    std::vector<double> rests(variable.own.size(), rest);
    for (std::size_t s = 0; s < variable.own.size(); ++s) {
      double now = cost + variable.own[s];
      for (auto e : variable.edges_to_earlier) {
        now += edges_[e].priced[states[edges_[e].from] * variable.own.size() + s];
      }
      for (auto child : children_[v]) rests[s] += pending_[child][s];
      costs[s] = now;
      if (now + rests[s] < best_ * kLess) order.emplace_back(now + rests[s], s);
    }
    std::ranges::sort(order);
    for (const auto& [least, s] : order) {
      if (least >= best_ * kLess) return;
      states[v] = s;
      descend(v + 1, costs[s], rests[s], states);
    }
  }

  const graph::Graph& model_;
  const machine::Digits& digits_;
  predict::CostModel& costs_;
  const bool saves_;
  std::vector<std::vector<std::pair<NodeId, std::size_t>>> users_;  // by node: user and operand
  std::vector<bool> gradient_;
  std::vector<predict::KernelRole> roles_;
  std::vector<std::vector<bool>> precedes_;
  std::vector<std::optional<std::size_t>> of_operator_;
  std::vector<std::optional<std::size_t>> of_tensor_;
  std::vector<std::vector<machine::NodeLayout>> all_layouts_;
  std::vector<Variable> variables_;
  std::vector<Edge> edges_;

  std::vector<std::vector<std::size_t>> children_;
  std::vector<std::vector<double>> pending_;  // least cost of a subtree, by the parent's state
  double roots_ = 0;
  double best_ = 0;
  bool found_ = false;
  std::size_t visited_ = 0;
};

}  // namespace tandem::search
