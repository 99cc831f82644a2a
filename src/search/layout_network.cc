#include "search/layout_network.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "search/local_search.h"
#include "strategies/storage.h"

namespace tandem::search {

namespace {

using graph::NodeId;
using machine::DigitRole;
using machine::Layout;
using machine::NodeLayout;

// A shared tensor may be kept in at most this many layouts: all that a seed uses at one of its
// ends, then those that the better states of its ends use, then on a small machine all others.
constexpr std::size_t kTensorStates = 96;

// Votes of one end's states, best first, for the layouts they want the tensor in.
void vote(std::map<Layout, double>& votes, const std::vector<Layout>& layouts, std::size_t seeds) {
  constexpr double kSeed = 1e6;
  for (std::size_t s = 0; s < layouts.size(); ++s) {
    votes[layouts[s]] += s < seeds ? kSeed : 1 / static_cast<double>(1 + s);
  }
}

Hash hash_type(const TensorType& type) {
  Hash h = hash_combine(static_cast<Hash>(type.dtype), std::bit_cast<Hash>(type.density));
  for (auto n : type.shape.sizes) h = hash_combine(h, static_cast<Hash>(n));
  return h;
}

bool has_partial(const Layout& layout) { return layout.digits(DigitRole::kPartial) != 0; }

Hash hash_of(const std::vector<NodeLayout>& layouts, std::size_t digits) {
  Hash h = layouts.size();
  for (const auto& layout : layouts) {
    for (std::size_t i = 0; i < digits; ++i)
      h = hash_combine(h, std::bit_cast<std::uint8_t>(layout.uses[i]));
  }
  return h;
}

// Many states of an operator have an operand or their result in the same layout.
struct Distinct {
  struct Known {
    CostModel::LayoutId id;
    machine::DigitMask partial;
  };
  std::vector<Known> layouts;
  std::vector<std::size_t> of;  // by state
};

Distinct distinct(const std::vector<Layout>& by_state, CostModel& costs) {
  Distinct out;
  for (const auto& layout : by_state) {
    const auto id = costs.id_of(layout);
    const auto at = std::ranges::find(out.layouts, id, &Distinct::Known::id);
    out.of.push_back(static_cast<std::size_t>(at - out.layouts.begin()));
    if (at == out.layouts.end()) out.layouts.push_back({id, layout.digits(DigitRole::kPartial)});
  }
  return out;
}

// No operator of the forward pass makes a partial sum of what is none.
bool can_become(const Distinct::Known& has, const Distinct::Known& wanted) {
  return (wanted.partial & ~has.partial) == 0;
}

// At any price.
Cost impossible() {
  Cost out;
  out.compute = Seconds{kImpossible};
  return out;
}

}  // namespace

LayoutNetwork::LayoutNetwork(const graph::Graph& model, const machine::Digits& digits,
                             CostModel& costs, const Dims& dims, std::size_t states_per_node,
                             const std::vector<std::vector<plan::Choice>>& seeds, const Pass& pass,
                             std::shared_ptr<Tables> tables)
    : model_(model),
      digits_(digits),
      costs_(costs),
      pass_(pass),
      nodes_(strategies::analyze(model)),
      consumers_(model.consumers()),
      gradient_(graph::needs_gradient(model)),
      precedence_(model),
      roles_(cost::kernels_of(model, costs.software())),
      operator_variable_(model.size(), kNoVariable),
      tensor_variable_(model.size(), kNoVariable),
      tables_(std::move(tables)) {
  places_ = is_small(digits) && has_unequal_devices();
  for (auto id : model.ids()) {
    if (model.node(id).op.role() != ops::Role::kCompute) continue;
    auto& wanted = seeds_[class_of(id)];
    for (const auto& seed : seeds) {
      const auto& layout = seed[id.index()].node;
      if (std::ranges::find(wanted, layout) == wanted.end()) wanted.push_back(layout);
    }
  }
  for (auto id : model.ids()) {
    if (model.node(id).op.role() == ops::Role::kCompute) add_operator(id, states_per_node, dims);
  }
  for (auto id : model.ids()) {
    if (consumers_[id.index()].size() > 1) add_shared_tensor(id);
  }
  for (auto id : model.ids()) {
    const auto inputs = model.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto producer = tensor_variable_[inputs[i].index()];
      if (producer == kNoVariable) continue;
      // Where a tensor is shared, what blocks all its users is paid on the way to the shared
      // layout.
      const bool shared = consumers_[inputs[i].index()].size() > 1;
      const bool blocks =
          shared ? precedence_.blocks(inputs[i], id) : precedence_.blocks(inputs[i]);
      add_edge(producer, operator_variable_[id.index()], i, inputs[i], blocks);
    }
  }
}

bool LayoutNetwork::is_absorbed(NodeId id) const {
  return is_source(id) && consumers_[id.index()].size() == 1;
}

// Operators of one class have the same states at the same cost.
Hash LayoutNetwork::class_of(NodeId id) const {
  const auto& node = model_.node(id);
  Hash h = hash_combine(node.op.hash(), (gradient_[id.index()] ? 1U : 0U) | (places_ ? 2U : 0U));
  if (!roles_.empty()) h = hash_combine(h, cost::hash_of(roles_[id.index()]));
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

// Does it matter to an operator on which device it is?
bool LayoutNetwork::has_unequal_devices() {
  const auto differs = [&](NodeId id) {
    const NodeLayout first;  // idle but for the first device
    const auto there = operator_cost(id, first).compute;
    for (std::size_t i = 0; i < digits_.count(); ++i) {
      auto other = first;
      other.uses[i] = machine::DigitUse::idle(digits_[i].size - 1);
      if (operator_cost(id, other).compute != there) return true;
    }
    return false;
  };
  return std::ranges::any_of(model_.ids(), [&](NodeId id) {
    return model_.node(id).op.role() == ops::Role::kCompute && differs(id);
  });
}

Cost LayoutNetwork::weight_cost(NodeId id, const Layout& layout, const Shape* looked_up,
                                bool of_product) {
  const auto& type = model_.node(id).type;
  if (!is_trained(model_.node(id))) {
    return costs_.frozen_weight(type.shape.sizes, type.dtype, layout);
  }
  auto cost = costs_.weight(type.shape.sizes, type.dtype, layout, looked_up,
                            of_product && pass_.times == 1 && pass_.stages == 0);
  if (pass_.stages != 0 && !is_absorbed(id)) {
    cost += costs_.sent_between_stages(type, layout, pass_.stages);
  }
  return cost;
}

Cost LayoutNetwork::shared_weights_cost(NodeId id, const NodeLayout& layout) {
  Cost out;
  const auto inputs = model_.inputs(id);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_weight(model_.node(inputs[i])) || is_absorbed(inputs[i])) continue;
    out += weight_cost(inputs[i],
                       input_layout(nodes_[id.index()].signature, layout, digits_.count(), i));
  }
  return out;
}

Cost LayoutNetwork::operator_cost(NodeId id, const NodeLayout& layout) {
  const auto& node = model_.node(id);
  const auto& s = nodes_[id.index()].signature;
  const auto inputs = model_.inputs(id);
  std::vector<TensorType> types;
  ops::InputMask differentiated = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    types.push_back(model_.node(inputs[i]).type);
    if (gradient_[inputs[i].index()]) differentiated |= ops::InputMask{1} << i;
  }
  Cost cost =
      costs_.compute(node.op, s, types, node.type, layout, differentiated, role_of(roles_, id))
          .times(pass_.times, pass_.kept);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto read = input_layout(s, layout, digits_.count(), i);
    cost += costs_.halo(types[i], s, i, read, gradient_[inputs[i].index()])
                .times(pass_.times, pass_.kept);
    const auto& source = model_.node(inputs[i]);
    if (!is_weight(source) || !is_absorbed(inputs[i])) continue;
    std::optional<Shape> looked_up;
    if (node.op.spec().row_sparse_operand == i) {
      looked_up = parallel_shape(input_layout(s, layout, digits_.count(), 0),
                                 term::shape_of(s.map.inputs[0]), digits_)
                      ->shard();
    }
    cost += weight_cost(inputs[i], read, looked_up ? &*looked_up : nullptr,
                        node.op.spec().product_operand == i);
  }
  return cost;
}

// The cheapest ones taken by themselves, and all that a seed uses.
std::vector<NodeLayout> LayoutNetwork::kept_layouts(NodeId id, std::size_t keep, const Dims& dims,
                                                    std::vector<Cost>& cost) {
  Freedom freedom{.redundant = pass_.redundant, .partial = 0, .places = places_};
  for (std::size_t i = 0; i < model_.inputs(id).size(); ++i) {
    if (!is_source(model_.inputs(id)[i])) freedom.partial |= ops::InputMask{1} << i;
  }
  auto all = node_layouts(nodes_[id.index()], digits_, dims, freedom);
  const auto& seeds = seeds_[class_of(id)];
  for (const auto& seed : seeds) {
    if (std::ranges::find(all, seed) == all.end()) all.push_back(seed);
  }
  for (const auto& layout : all) cost.push_back(operator_cost(id, layout));
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> rank;
  rank.reserve(cost.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    rank.push_back(Prices{}.of(cost[i]) + Prices{}.of(shared_weights_cost(id, all[i])));
  }
  for (const auto& seed : seeds)
    rank[static_cast<std::size_t>(std::ranges::find(all, seed) - all.begin())] = -1;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return rank[i]; });
  order.resize(std::min(order.size(), keep));
  std::vector<NodeLayout> layouts;
  std::vector<Cost> kept_cost;
  for (auto i : order) {
    layouts.push_back(all[i]);
    kept_cost.push_back(cost[i]);
  }
  cost = std::move(kept_cost);
  return layouts;
}

void LayoutNetwork::add_operator(NodeId id, std::size_t keep, const Dims& dims) {
  const auto& seeds = seeds_[class_of(id)];
  const Hash key = hash_combine(class_of(id), hash_of(seeds, digits_.count()));
  auto& [states, unary] = tables_->classes[key];
  if (!states) {
    auto made = std::make_shared<States>();
    auto table = std::make_shared<CostTable>();
    const auto& s = nodes_[id.index()].signature;
    made->nodes = kept_layouts(id, keep, dims, table->cost);
    made->id = key;
    made->seeds = seeds.size();
    made->in.resize(s.map.inputs.size());
    for (const auto& layout : made->nodes) {
      for (std::size_t i = 0; i < made->in.size(); ++i) {
        made->in[i].push_back(input_layout(s, layout, digits_.count(), i));
      }
      made->out.push_back(output_layout(s, layout, digits_.count()));
    }
    table->id = hash_combine(key, hash_text("unary"));
    table->rows = made->nodes.size();
    states = std::move(made);
    unary = std::move(table);
  }
  operator_variable_[id.index()] = tensor_variable_[id.index()] = states_.size();
  states_.push_back(states);
  unary_.push_back(unary);
}

void LayoutNetwork::add_shared_tensor(NodeId id) {
  std::map<Layout, double> votes;
  const auto producer = tensor_variable_[id.index()];
  Hash key = hash_combine(hash_text("tensor"), hash_type(model_.node(id).type));
  if (producer != kNoVariable) {
    key = hash_combine(key, states_[producer]->id);
    vote(votes, states_[producer]->out, states_[producer]->seeds);
  }
  for (auto user : consumers_[id.index()]) {
    const auto& states = *states_[operator_variable_[user.index()]];
    const auto inputs = model_.inputs(user);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != id) continue;
      key = hash_combine(key, hash_combine(states.id, i));
      vote(votes, states.in[i], states.seeds);
    }
  }
  key = hash_combine(key, is_weight(model_.node(id)) ? 1 : 0);
  key = hash_combine(key, is_trained(model_.node(id)) ? 1 : 0);
  auto& [states, unary] = tables_->classes[key];
  if (!states) {
    auto made = std::make_shared<States>();
    auto table = std::make_shared<CostTable>();
    const bool partial = is_small(digits_) && !is_source(id);
    if (is_small(digits_)) {
      const auto& sizes = model_.node(id).type.shape.sizes;
      const Freedom freedom{
          .redundant = pass_.redundant, .partial = partial ? 1U : 0U, .places = places_};
      for (const auto& l : tensor_layouts(sizes, digits_, freedom)) votes[l] += 0;
    }
    for (const auto& [layout, count] : votes) {
      if (partial || !has_partial(layout)) made->out.push_back(layout);
    }
    std::ranges::stable_sort(made->out, std::greater{}, [&](const Layout& l) { return votes[l]; });
    made->out.resize(std::min(made->out.size(), kTensorStates));
    made->in = {made->out};
    made->id = key;
    for (const auto& layout : made->out) {
      table->cost.push_back(is_weight(model_.node(id)) ? weight_cost(id, layout) : Cost{});
    }
    table->id = hash_combine(key, hash_text("unary"));
    table->rows = made->out.size();
    states = std::move(made);
    unary = std::move(table);
  }
  const auto variable = states_.size();
  states_.push_back(states);
  unary_.push_back(unary);
  if (producer != kNoVariable) add_edge(producer, variable, 0, id, precedence_.blocks(id));
  tensor_variable_[id.index()] = variable;
}

void LayoutNetwork::add_edge(std::size_t from, std::size_t to, std::size_t operand, NodeId tensor,
                             bool blocks) {
  const auto& a = *states_[from];
  const auto& b = *states_[to];
  const auto& type = model_.node(tensor).type;
  std::optional<DType> gradient;
  if (gradient_[tensor.index()]) {
    gradient = is_weight(model_.node(tensor)) ? costs_.gradient_of_weight(type.dtype) : type.dtype;
  }
  Hash key = hash_combine(hash_combine(a.id, b.id), operand);
  const auto kind = gradient ? 1U + static_cast<unsigned>(*gradient) : 0U;
  key = hash_combine(hash_combine(key, hash_type(type)), 2 * kind + (blocks ? 1U : 0U));
  auto& table = tables_->edges[key];
  if (!table) {
    auto made = std::make_shared<CostTable>();
    made->id = key;
    made->rows = a.out.size();
    made->cols = b.in[operand].size();
    const auto has = distinct(a.out, costs_);
    const auto wants = distinct(b.in[operand], costs_);
    const bool weight = is_weight(model_.node(tensor));
    const auto cost = [&](const Distinct::Known& from_layout, const Distinct::Known& to_layout) {
      if (!can_become(from_layout, to_layout)) return impossible();
      const auto once = costs_.reshard(type, from_layout.id, to_layout.id, gradient, blocks);
      // Weights are brought there once a step.
      return weight ? once : once.times(pass_.times, pass_.kept);
    };
    std::vector<Cost> costs;
    costs.reserve(has.layouts.size() * wants.layouts.size());
    for (const auto& from_layout : has.layouts) {
      for (const auto& to_layout : wants.layouts) costs.push_back(cost(from_layout, to_layout));
    }
    made->cost.reserve(made->rows * made->cols);
    for (auto row : has.of) {
      for (auto col : wants.of) made->cost.push_back(costs[row * wants.layouts.size() + col]);
    }
    table = std::move(made);
  }
  edges_.push_back({from, to, table});
}

bool LayoutNetwork::is_stored(NodeId user, std::size_t operand) const {
  const auto source = model_.inputs(user)[operand];
  return is_absorbed(source) && is_trained(model_.node(source)) &&
         model_.node(user).op.spec().row_sparse_operand != operand;
}

Layout LayoutNetwork::stored(NodeId weight, const Layout& used) const {
  return strategies::stored_in_parts(used, model_.node(weight).type.shape.sizes, digits_.all(),
                                     digits_);
}

LayoutNetwork::Saving LayoutNetwork::saving_of(NodeId id) {
  Saving out;
  const auto& node = model_.node(id);
  const auto& s = nodes_[id.index()].signature;
  const auto& states = *states_[operator_variable_[id.index()]];
  const auto inputs = model_.inputs(id);
  std::vector<TensorType> types;
  for (auto i : inputs) types.push_back(model_.node(i).type);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_stored(id, i)) continue;
    auto& weight = out.weights.emplace_back();
    weight.operand = i;
    for (const auto& used : states.in[i]) {
      const auto parts = stored(inputs[i], used);
      const auto cost = [&](CostModel::Gathered gathered) {
        return costs_.stored_in_parts(types[i], used, parts, gathered);
      };
      weight.gathered_once.push_back(cost(CostModel::Gathered::kOnce));
      weight.gathered_anew.push_back(cost(CostModel::Gathered::kForEachPass));
    }
  }
  for (const auto& layout : states.nodes) {
    if (!gradient_[id.index()]) {
      out.again.emplace_back();
      continue;
    }
    const auto again =
        costs_.computed_again(node.op, s, types, node.type, layout, role_of(roles_, id));
    out.again.push_back(again.times(pass_.times, pass_.kept));
  }
  return out;
}

void LayoutNetwork::allow_saving() {
  saves_ = true;
  for (auto id : model_.ids()) {
    const auto v = operator_variable_[id.index()];
    if (v == kNoVariable || tables_->saving.contains(unary_[v].get())) continue;
    tables_->saving.emplace(unary_[v].get(), saving_of(id));
  }
}

const LayoutNetwork::Saving* LayoutNetwork::saving_of(const CostTable& unary) const {
  const auto at = tables_->saving.find(&unary);
  return saves_ && at != tables_->saving.end() ? &at->second : nullptr;
}

Network LayoutNetwork::priced(Priced& priced) const {
  const auto& prices = priced.prices;
  const auto price = [&](const CostTablePtr& table) {
    auto& slot = priced.tables[table];
    if (slot) return slot;
    auto out = std::make_shared<Table>();
    out->id = table->id;
    out->rows = table->rows;
    out->cols = table->cols;
    const auto* saving = saving_of(*table);
    for (std::size_t i = 0; i < table->cost.size(); ++i) {
      double cost = prices.of(table->cost[i]);
      if (saving != nullptr) {
        for (const auto& weight : saving->weights) {
          cost += std::min(
              {0.0, prices.of(weight.gathered_once[i]), prices.of(weight.gathered_anew[i])});
        }
        cost += std::min(0.0, prices.of(saving->again[i]));
      }
      out->cost.push_back(static_cast<float>(cost));
    }
    priced.made.entries += out->cost.size();
    return slot = std::move(out);
  };
  Network network;
  for (const auto& u : unary_) network.unary.push_back(price(u));
  for (const auto& e : edges_) network.edges.push_back({e.a, e.b, price(e.table)});
  return network;
}

Minimum LayoutNetwork::find(const Network& network, Priced& priced, const Finder& finder) const {
  if (finder.by == Finder::By::kElimination) return minimize(network, {}, priced.made);
  Followers shared_tensors;
  for (const auto& states : states_) shared_tensors.push_back(states->nodes.empty());
  return finder.by == Finder::By::kDescent ? descend(network, shared_tensors)
                                           : walk(network, shared_tensors, {.seed = finder.seed});
}

double LayoutNetwork::cost(Priced& priced, const Finder& finder) const {
  return find(this->priced(priced), priced, finder).cost;
}

LayoutNetwork::Solution LayoutNetwork::solve(const Prices& prices, const Finder& finder) const {
  Priced priced{prices};
  const auto minimum = find(this->priced(priced), priced, finder);

  Solution out{std::vector<plan::Choice>(model_.size()), minimum.cost, minimum.exact,
               minimum.products};
  for (auto id : model_.ids()) {
    const auto n = id.index();
    if (operator_variable_[n] == kNoVariable) continue;
    const auto v = operator_variable_[n];
    const auto state = minimum.state[v];
    out.choices[n].node = states_[v]->nodes[state];
    const auto inputs = model_.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (is_absorbed(inputs[i])) out.choices[inputs[i].index()].source = states_[v]->in[i][state];
    }
    const auto* saving = saving_of(*unary_[v]);
    if (saving == nullptr) continue;
    out.choices[n].remake = prices.of(saving->again[state]) < 0 && !consumers_[n].empty();
    for (const auto& weight : saving->weights) {
      const double once = prices.of(weight.gathered_once[state]);
      const double anew = prices.of(weight.gathered_anew[state]);
      if (std::min(once, anew) >= 0) continue;
      auto& choice = out.choices[inputs[weight.operand].index()];
      choice.source = stored(inputs[weight.operand], choice.source);
      choice.remake = anew < once;
    }
  }
  for (auto id : model_.ids()) {
    const auto n = id.index();
    if (model_.node(id).op.role() != ops::Role::kSource || is_absorbed(id)) continue;
    const auto v = tensor_variable_[n];
    out.choices[n].source = v == kNoVariable ? Layout(digits_.count(), DigitRole::kReplica)
                                             : states_[v]->out[minimum.state[v]];
  }
  return out;
}

}  // namespace tandem::search
