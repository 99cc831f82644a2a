#include "search/space/layout_network.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "search/limits.h"
#include "search/solver/local_search.h"
#include "strategies/weight_sharding.h"

namespace tandem::search {

namespace {

using graph::NodeId;
using machine::DigitRole;
using machine::Layout;
using machine::NodeLayout;

// Adds the votes of one end's states, best first, for the layouts in which they want the tensor.
void vote(std::map<Layout, double>& votes, const std::vector<Layout>& layouts, std::size_t seeds) {
  constexpr double kSeed = 1e6;
  for (std::size_t s = 0; s < layouts.size(); ++s) {
    votes[layouts[s]] += s < seeds ? kSeed : 1 / static_cast<double>(1 + s);
  }
}

bool has_partial(const Layout& layout) { return layout.digits(DigitRole::kPartial) != 0; }

Hash hash_pass(const Pass& pass) {
  const Hash digits = (Hash{pass.redundant} << 32U) | pass.stages;
  return hash_combine(hash_combine(digits, std::bit_cast<Hash>(pass.times)),
                      std::bit_cast<Hash>(pass.in_flight));
}

Hash hash_layouts(const std::vector<NodeLayout>& layouts, std::size_t digits) {
  Hash h = layouts.size();
  for (const auto& layout : layouts) {
    for (std::size_t i = 0; i < digits; ++i)
      h = hash_combine(h, std::bit_cast<std::uint8_t>(layout.uses[i]));
  }
  return h;
}

}  // namespace

LayoutNetwork::LayoutNetwork(const graph::Graph& model, const machine::Digits& digits,
                             predict::CostModel& costs, const Dims& dims,
                             std::size_t states_per_node,
                             const std::vector<std::vector<plan::Choice>>& seeds, const Pass& pass,
                             std::shared_ptr<Tables> tables)
    : model_(model),
      digits_(digits),
      costs_(costs),
      pass_(pass),
      pass_hash_(hash_pass(pass)),
      nodes_(strategies::analyze(model)),
      consumers_(model.consumers()),
      gradient_(graph::mark_gradient_nodes(model)),
      precedence_(model),
      roles_(predict::find_kernel_roles(model, costs.software())),
      operator_variable_(model.size(), kNoVariable),
      tensor_variable_(model.size(), kNoVariable),
      tables_(std::move(tables)) {
  places_ = is_small(digits) && has_unequal_devices();
  classes_.resize(model.size());
  for (auto id : model.ids()) {
    if (model.node(id).op.role() != ops::Role::kCompute) continue;
    classes_[id.index()] = compute_class(id);
    auto& wanted = initial_layouts_[classes_[id.index()]];
    for (const auto& seed : seeds) {
      const auto& layout = seed[id.index()].node;
      if (std::ranges::find(wanted, layout) == wanted.end()) wanted.push_back(layout);
    }
  }
  const auto is_late = find_late_gradients();
  for (auto id : model.ids()) {
    if (model.node(id).op.role() != ops::Role::kCompute) continue;
    add_operator(id, states_per_node, dims);
    is_late_.push_back(is_late[id.index()]);
  }
  for (auto id : model.ids()) {
    if (consumers_[id.index()].size() <= 1) continue;
    add_shared_tensor(id);
    is_late_.push_back(is_weight(model.node(id)) &&
                       std::ranges::any_of(consumers_[id.index()],
                                           [&](NodeId user) { return is_late[user.index()]; }));
  }
  for (auto id : model.ids()) {
    const auto inputs = model.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto producer = tensor_variable_[inputs[i].index()];
      if (producer == kNoVariable) continue;
      // For a shared tensor, resharding that blocks all users is charged on the edge to the shared
      // layout.
      const bool shared = consumers_[inputs[i].index()].size() > 1;
      const bool blocks =
          shared ? precedence_.blocks(inputs[i], id) : precedence_.blocks(inputs[i]);
      const auto users = consumers_[inputs[i].index()].size();
      add_edge(producer, operator_variable_[id.index()], i, inputs[i], blocks, users);
    }
  }
}

std::vector<bool> LayoutNetwork::find_late_gradients() const {
  Flops all;
  for (const auto& node : nodes_) all += node.signature.flops;
  Flops before;
  std::vector<bool> out;
  for (const auto& node : nodes_) {
    before += node.signature.flops;
    out.push_back(before <= limits::kLateGradients * all);
  }
  return out;
}

bool LayoutNetwork::is_absorbed(NodeId id) const {
  return is_source(id) && consumers_[id.index()].size() == 1;
}

// Returns the class of an operator. Operators of one class have the same states at the same cost.
Hash LayoutNetwork::compute_class(NodeId id) const {
  const auto& node = model_.node(id);
  Hash h = hash_combine(node.op.hash(), (gradient_[id.index()] ? 1U : 0U) | (places_ ? 2U : 0U));
  h = hash_combine(h, pass_hash_);
  if (!roles_.empty()) h = hash_combine(h, predict::hash_role(roles_[id.index()]));
  for (auto kind : nodes_[id.index()].kinds) h = hash_combine(h, static_cast<Hash>(kind));
  for (auto i : model_.inputs(id)) {
    h = hash_combine(h, hash_type(model_.node(i).type));
    h = hash_combine(h, (gradient_[i.index()] ? 1U : 0U) | (is_absorbed(i) ? 2U : 0U) |
                            (is_weight(model_.node(i)) ? 4U : 0U) | (is_source(i) ? 8U : 0U));
  }
  return h;
}

bool LayoutNetwork::is_source(NodeId id) const {
  return model_.node(id).op.role() == ops::Role::kSource;
}

// Returns whether the compute time of some operator depends on its device.
bool LayoutNetwork::has_unequal_devices() {
  const auto differs = [&](NodeId id) {
    const NodeLayout first;  // only on the first device
    const auto there = compute_cost(id, first).compute;
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      auto other = first;
      other.uses[i] = machine::DigitUse::idle(digits_[i].size - 1);
      if (compute_cost(id, other).compute != there) return true;
    }
    return false;
  };
  return std::ranges::any_of(model_.ids(), [&](NodeId id) {
    return model_.node(id).op.role() == ops::Role::kCompute && differs(id);
  });
}

predict::Cost LayoutNetwork::weight_cost(NodeId id, const Layout& layout, const Shape* looked_up,
                                         bool of_product) {
  const auto& type = model_.node(id).type;
  if (!is_trained(model_.node(id))) {
    return costs_.frozen_weight_cost(type.shape.sizes, type.dtype, layout);
  }
  auto cost = costs_.weight_cost(type.shape.sizes, type.dtype, layout, looked_up,
                                 of_product && pass_.times == 1 && pass_.stages == 0);
  if (pass_.stages != 0 && !is_absorbed(id)) {
    cost += costs_.stage_send_cost(type, layout, pass_.stages);
  }
  return cost;
}

predict::Cost LayoutNetwork::shared_weights_cost(NodeId id, const NodeLayout& layout) {
  predict::Cost out;
  const auto inputs = model_.inputs(id);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_weight(model_.node(inputs[i])) || is_absorbed(inputs[i])) continue;
    out += weight_cost(
        inputs[i], compute_input_layout(nodes_[id.index()].signature, layout, digits_.count(), i));
  }
  return out;
}

predict::Cost LayoutNetwork::compute_cost(NodeId id, const NodeLayout& layout) const {
  const auto& node = model_.node(id);
  const auto inputs = model_.inputs(id);
  std::vector<TensorType> types;
  ops::InputMask differentiated = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    types.push_back(model_.node(inputs[i]).type);
    if (gradient_[inputs[i].index()]) differentiated |= ops::InputMask{1} << i;
  }
  return costs_
      .operator_cost(node.op, nodes_[id.index()].signature, types, node.type, layout,
                     differentiated, get_role(roles_, id))
      .times(pass_.times, pass_.in_flight);
}

predict::Cost LayoutNetwork::operator_cost(NodeId id, const NodeLayout& layout,
                                           const predict::Cost& compute) {
  const auto& node = model_.node(id);
  const auto& s = nodes_[id.index()].signature;
  const auto inputs = model_.inputs(id);
  predict::Cost cost = compute;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto read = compute_input_layout(s, layout, digits_.count(), i);
    const auto& source = model_.node(inputs[i]);
    cost += costs_.halo_cost(source.type, s, i, read, gradient_[inputs[i].index()])
                .times(pass_.times, pass_.in_flight);
    if (!is_weight(source) || !is_absorbed(inputs[i])) continue;
    std::optional<Shape> looked_up;
    if (node.op.spec().row_sparse_operand == i) {
      looked_up = compute_parallel_shape(compute_input_layout(s, layout, digits_.count(), 0),
                                         term::to_shape(s.map.inputs[0]), digits_)
                      ->shard_shape();
    }
    cost += weight_cost(inputs[i], read, looked_up ? &*looked_up : nullptr,
                        node.op.spec().matmul_operand == i);
  }
  return cost;
}

// Returns a hash of the degree of each factor. With equal devices, layouts with equal degrees take
// the same compute time.
Hash LayoutNetwork::hash_degrees(const NodeLayout& layout) const {
  Hash out = 0;
  for (std::size_t i = 0; i < digits_.count(); ++i) {
    const auto use = layout.uses[i];
    const bool is_first =
        std::find(layout.uses.begin(), layout.uses.begin() + i, use) == layout.uses.begin() + i;
    if (!is_first || !(use.is_factor() || use.is_through())) continue;
    std::int64_t degree = 1;
    for (std::size_t d = i; d < digits_.count(); ++d) {
      if (layout.uses[d] == use) degree *= digits_[d].size;
    }
    // The sum does not depend on the order.
    out += hash_combine(std::bit_cast<std::uint8_t>(use), static_cast<Hash>(degree));
  }
  return out;
}

void LayoutNetwork::append_layout(NodeId id, const NodeLayout& layout, const predict::Cost& compute,
                                  Listed& to) {
  const auto cost = operator_cost(id, layout, compute);
  to.layouts.push_back(layout);
  to.cost.push_back(cost);
  to.rank.push_back(predict::Prices{}.price(cost) +
                    predict::Prices{}.price(shared_weights_cost(id, layout)));
}

const LayoutNetwork::Listed& LayoutNetwork::get_listed(NodeId id, const Dims& dims) {
  auto& out = tables_->listed[classes_[id.index()]];
  if (!out.layouts.empty()) return out;
  Freedom freedom{.redundant = pass_.redundant, .partial = 0, .places = places_};
  for (std::size_t i = 0; i < model_.inputs(id).size(); ++i) {
    if (!is_source(model_.inputs(id)[i])) freedom.partial |= ops::InputMask{1} << i;
  }
  std::unordered_map<Hash, predict::Cost> computed;  // by hash_degrees
  for (const auto& layout : list_node_layouts(nodes_[id.index()], digits_, dims, freedom)) {
    if (!costs_.has_equal_devices()) {
      append_layout(id, layout, compute_cost(id, layout), out);
      continue;
    }
    const auto [at, fresh] = computed.try_emplace(hash_degrees(layout));
    if (fresh) at->second = compute_cost(id, layout);
    append_layout(id, layout, at->second, out);
  }
  return out;
}

// Returns the layouts that are cheapest on their own, and all that a seed uses.
std::vector<NodeLayout> LayoutNetwork::choose_layouts(NodeId id, std::size_t keep, const Dims& dims,
                                                      std::vector<predict::Cost>& cost) {
  auto all = get_listed(id, dims);
  const auto& seeds = initial_layouts_[classes_[id.index()]];
  std::vector<std::size_t> wanted;
  for (const auto& seed : seeds) {
    const auto at = std::ranges::find(all.layouts, seed);
    wanted.push_back(static_cast<std::size_t>(at - all.layouts.begin()));
    if (at == all.layouts.end()) append_layout(id, seed, compute_cost(id, seed), all);
  }
  for (auto i : wanted) all.rank[i] = -1;
  std::vector<std::size_t> order(all.layouts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return all.rank[i]; });
  order.resize(std::min(order.size(), std::max(keep, wanted.size())));
  std::vector<NodeLayout> layouts;
  for (auto i : order) {
    layouts.push_back(all.layouts[i]);
    cost.push_back(all.cost[i]);
  }
  return layouts;
}

LayoutNetwork::StateLayouts LayoutNetwork::make_state_layouts(std::vector<Layout> layouts) {
  StateLayouts out;
  auto& different = out.different;
  for (const auto& layout : layouts) {
    const auto id = costs_.intern_layout(layout);
    const auto at = std::ranges::find(different.layouts, id);
    out.of.push_back(static_cast<std::uint32_t>(at - different.layouts.begin()));
    if (at != different.layouts.end()) continue;
    different.layouts.push_back(id);
    different.id = hash_combine(different.id, id);
  }
  out.layouts = std::move(layouts);
  return out;
}

void LayoutNetwork::add_operator(NodeId id, std::size_t keep, const Dims& dims) {
  const auto& seeds = initial_layouts_[classes_[id.index()]];
  const Hash key =
      hash_combine(hash_combine(classes_[id.index()], keep), hash_layouts(seeds, digits_.count()));
  auto& [states, unary] = tables_->classes[key];
  if (!states) {
    auto made = std::make_shared<States>();
    auto table = std::make_shared<UnaryCostTable>();
    const auto& s = nodes_[id.index()].signature;
    made->nodes = choose_layouts(id, keep, dims, table->cost);
    made->id = key;
    made->initial_states = seeds.size();
    const auto end = [&](const auto& layout_of) {
      std::vector<Layout> layouts;
      for (const auto& node : made->nodes) layouts.push_back(layout_of(node));
      return make_state_layouts(std::move(layouts));
    };
    for (std::size_t i = 0; i < s.map.inputs.size(); ++i) {
      made->in.push_back(end([&](const NodeLayout& node) {
        return compute_input_layout(s, node, digits_.count(), i);
      }));
    }
    made->out = end(
        [&](const NodeLayout& node) { return compute_output_layout(s, node, digits_.count()); });
    table->id = hash_combine(key, hash_text("unary"));
    states = std::move(made);
    unary = std::move(table);
  }
  operator_variable_[id.index()] = tensor_variable_[id.index()] = states_.size();
  states_.push_back(states);
  unary_.push_back(unary);
  segments_.push_back(precedence_.get_segment(id));
}

// Returns the layouts that a shared tensor may take, best first.
std::vector<Layout> LayoutNetwork::list_shared_layouts(NodeId id) const {
  std::map<Layout, double> votes;
  if (const auto producer = tensor_variable_[id.index()]; producer != kNoVariable) {
    vote(votes, states_[producer]->out.layouts, states_[producer]->initial_states);
  }
  for (auto user : consumers_[id.index()]) {
    const auto& states = *states_[operator_variable_[user.index()]];
    const auto inputs = model_.inputs(user);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == id) vote(votes, states.in[i].layouts, states.initial_states);
    }
  }
  const bool partial = is_small(digits_) && !is_source(id);
  if (is_small(digits_)) {
    const auto& sizes = model_.node(id).type.shape.sizes;
    const Freedom freedom{
        .redundant = pass_.redundant, .partial = partial ? 1U : 0U, .places = places_};
    for (const auto& l : list_tensor_layouts(sizes, digits_, freedom)) votes[l] += 0;
  }
  std::vector<Layout> out;
  for (const auto& [layout, count] : votes) {
    if (partial || !has_partial(layout)) out.push_back(layout);
  }
  std::ranges::stable_sort(out, std::greater{}, [&](const Layout& l) { return votes[l]; });
  out.resize(std::min(out.size(), limits::kTensorStates));
  return out;
}

// Returns the class of a shared tensor, which depends on the states of its producer and users.
Hash LayoutNetwork::compute_shared_class(NodeId id) const {
  const auto& node = model_.node(id);
  Hash key = hash_combine(hash_text("tensor"), hash_type(node.type));
  if (const auto producer = tensor_variable_[id.index()]; producer != kNoVariable) {
    key = hash_combine(key, states_[producer]->id);
  }
  for (auto user : consumers_[id.index()]) {
    const auto inputs = model_.inputs(user);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != id) continue;
      key = hash_combine(key, hash_combine(states_[operator_variable_[user.index()]]->id, i));
    }
  }
  return hash_combine(hash_combine(key, is_weight(node) ? 1 : 0), is_trained(node) ? 1 : 0);
}

void LayoutNetwork::add_shared_tensor(NodeId id) {
  const auto producer = tensor_variable_[id.index()];
  const auto key = compute_shared_class(id);
  auto& [states, unary] = tables_->classes[key];
  if (!states) {
    auto made = std::make_shared<States>();
    auto table = std::make_shared<UnaryCostTable>();
    auto layouts = list_shared_layouts(id);
    for (const auto& layout : layouts) {
      table->cost.push_back(is_weight(model_.node(id)) ? weight_cost(id, layout) : predict::Cost{});
    }
    made->id = key;
    made->out = make_state_layouts(std::move(layouts));
    made->in = {made->out};
    table->id = hash_combine(key, hash_text("unary"));
    states = std::move(made);
    unary = std::move(table);
  }
  const auto variable = states_.size();
  states_.push_back(states);
  unary_.push_back(unary);
  segments_.push_back(Segment::kAnytime);
  if (producer != kNoVariable) add_edge(producer, variable, 0, id, precedence_.blocks(id));
  tensor_variable_[id.index()] = variable;
}

void LayoutNetwork::add_edge(std::size_t from, std::size_t to, std::size_t operand, NodeId tensor,
                             bool blocks, std::size_t users) {
  const auto& a = *states_[from];
  const auto& b = *states_[to];
  const auto& type = model_.node(tensor).type;
  std::optional<DType> gradient;
  if (gradient_[tensor.index()]) {
    gradient = is_weight(model_.node(tensor)) ? costs_.gradient_dtype(type.dtype) : type.dtype;
  }
  Hash key = hash_combine(hash_combine(a.id, b.id), operand);
  const auto kind = gradient ? 1U + static_cast<unsigned>(*gradient) : 0U;
  key = hash_combine(hash_combine(key, hash_type(type)), 2 * kind + (blocks ? 1U : 0U));
  key = hash_combine(key, users);
  auto& table = tables_->edges[key];
  if (!table) {
    auto made = std::make_shared<EdgeTable>(EdgeTable{
        key, states_[from], states_[to], operand, blocks, static_cast<double>(users), {}});
    made->cost = costs_.reshard_costs(type, a.out.different, b.in[operand].different, gradient);
    // Weights are resharded once a step.
    if (!is_weight(model_.node(tensor))) {
      for (auto& moved : made->cost) {
        moved = {pass_.times * moved.time,          pass_.in_flight * moved.memory,
                 pass_.times * moved.outer,         pass_.times * moved.rooted,
                 pass_.times * moved.forward,       pass_.times * moved.forward_outer,
                 pass_.times * moved.forward_rooted};
      }
    }
    table = std::move(made);
  }
  edges_.push_back({from, to, table, precedence_.get_segment_after(tensor)});
}

bool LayoutNetwork::can_shard(NodeId user, std::size_t operand) const {
  const auto source = model_.inputs(user)[operand];
  return is_absorbed(source) && is_trained(model_.node(source)) &&
         model_.node(user).op.spec().row_sparse_operand != operand;
}

Layout LayoutNetwork::shard_stored(NodeId weight, const Layout& used) const {
  return strategies::shard_weight(used, model_.node(weight).type.shape.sizes, digits_.all(),
                                  digits_);
}

LayoutNetwork::Saving LayoutNetwork::compute_saving(NodeId id) {
  Saving out;
  const auto& node = model_.node(id);
  const auto& s = nodes_[id.index()].signature;
  const auto& states = *states_[operator_variable_[id.index()]];
  const auto inputs = model_.inputs(id);
  std::vector<TensorType> types;
  for (auto i : inputs) types.push_back(model_.node(i).type);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!can_shard(id, i)) continue;
    auto& weight = out.weights.emplace_back();
    weight.operand = i;
    for (const auto& used : states.in[i].layouts) {
      const auto parts = shard_stored(inputs[i], used);
      const auto cost = [&](predict::CostModel::Gathered gathered) {
        return costs_.sharded_storage_cost(types[i], used, parts, gathered);
      };
      weight.gathered_once.push_back(cost(predict::CostModel::Gathered::kOnce));
      weight.gathered_anew.push_back(cost(predict::CostModel::Gathered::kForEachPass));
    }
  }
  for (const auto& layout : states.nodes) {
    if (!gradient_[id.index()]) {
      out.recomputation.emplace_back();
      continue;
    }
    const auto again =
        costs_.recompute_cost(node.op, s, types, node.type, layout, get_role(roles_, id));
    out.recomputation.push_back(again.times(pass_.times, pass_.in_flight));
  }
  return out;
}

void LayoutNetwork::allow_saving() {
  saves_ = true;
  for (auto id : model_.ids()) {
    const auto v = operator_variable_[id.index()];
    if (v == kNoVariable || tables_->saving.contains(unary_[v].get())) continue;
    tables_->saving.emplace(unary_[v].get(), compute_saving(id));
  }
}

const LayoutNetwork::Saving* LayoutNetwork::find_saving(const UnaryCostTable& unary) const {
  const auto at = tables_->saving.find(&unary);
  return saves_ && at != tables_->saving.end() ? &at->second : nullptr;
}

}  // namespace tandem::search
