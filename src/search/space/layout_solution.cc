// Prices a network's tables, and converts the solver's states to choices.
#include <algorithm>
#include <cmath>

#include "search/solver/local_search.h"
#include "search/space/layout_network.h"

namespace tandem::search {

using machine::DigitRole;
using machine::Layout;

std::vector<float> LayoutNetwork::price_table(const predict::Prices& prices,
                                              const UnaryCostTable& unary) const {
  const auto* saving = find_saving(unary);
  std::vector<float> out;
  out.reserve(unary.cost.size());
  for (std::size_t i = 0; i < unary.cost.size(); ++i) {
    double cost = prices.price(unary.cost[i]);
    if (saving != nullptr) {
      for (const auto& weight : saving->weights) {
        cost += std::min(
            {0.0, prices.price(weight.gathered_once[i]), prices.price(weight.gathered_anew[i])});
      }
      cost += std::min(0.0, prices.price(saving->recomputation[i]));
    }
    out.push_back(static_cast<float>(cost));
  }
  return out;
}

std::vector<float> LayoutNetwork::price_table(const predict::Prices& prices,
                                              const EdgeTable& edge) {
  const double per_second = edge.blocks ? prices.blocking : prices.async;
  std::vector<float> different;
  different.reserve(edge.cost.size());
  const double forward = edge.blocks ? prices.forward.blocking : 0;
  for (const auto& moved : edge.cost) {
    const double cost =
        per_second * moved.time.value + prices.per_byte * moved.memory.value +
        forward * moved.forward.value +
        (prices.outer * moved.outer.value + prices.forward.outer * moved.forward_outer.value +
         prices.rooted * moved.rooted.value + prices.forward.rooted * moved.forward_rooted.value) /
            edge.users;
    different.push_back(std::isinf(moved.time.value) ? kImpossible : static_cast<float>(cost));
  }
  const auto& rows = edge.from().of;
  const auto& cols = edge.to().of;
  const auto width = edge.to().different.layouts.size();
  std::vector<float> out(rows.size() * cols.size());
  auto* to = out.data();
  for (auto row : rows) {
    const float* from = different.data() + row * width;
    for (auto col : cols) *to++ = from[col];
  }
  return out;
}

predict::Prices LayoutNetwork::get_prices(const SegmentPrices& prices, std::size_t variable) const {
  auto out = prices.get_operator_prices(segments_[variable]);
  if (is_late_[variable]) out.async = std::max(out.async, out.late);
  return out;
}

CostNetwork LayoutNetwork::make_priced_network(Priced& priced) const {
  const auto made = [&](Hash id, std::size_t rows, std::size_t cols, std::vector<float> cost) {
    priced.cache.entries += cost.size();
    return std::make_shared<Table>(Table{id, rows, cols, std::move(cost)});
  };
  CostNetwork network;
  // Segments with equal prices share tables.
  const auto number = [&](Segment segment) {
    return priced.prices.are_equal ? 0 : static_cast<std::size_t>(segment);
  };
  const auto id_in = [](Hash id, std::size_t s) { return s == 0 ? id : hash_combine(id, s); };
  for (std::size_t v = 0; v < unary_.size(); ++v) {
    const auto& unary = unary_[v];
    const auto own = get_prices(priced.prices, v);
    const bool is_dearer = own.async > priced.prices.at(segments_[v]).async;
    const auto s = number(segments_[v]) + (is_dearer ? kSegments : 0);
    auto& slot = priced.unary[s][unary];
    if (!slot) {
      slot = made(id_in(unary->id, s), unary->cost.size(), 1, price_table(own, *unary));
    }
    network.unary.push_back(slot);
  }
  for (const auto& [a, b, edge, segment] : edges_) {
    const auto s = number(segment);
    auto& slot = priced.edges[s][edge];
    if (!slot) {
      slot = made(id_in(edge->id, s), edge->from().of.size(), edge->to().of.size(),
                  price_table(priced.prices.at(segment), *edge));
    }
    network.edges.push_back({a, b, slot});
  }
  return network;
}

Minimum LayoutNetwork::find_minimum(const CostNetwork& network, Priced& priced,
                                    const Finder& finder) const {
  if (finder.by == Finder::By::kElimination) return minimize(network, {}, priced.cache);
  Followers shared_tensors;
  for (const auto& states : states_) shared_tensors.push_back(states->nodes.empty());
  return finder.by == Finder::By::kDescent ? descend(network, shared_tensors)
                                           : walk(network, shared_tensors, {.seed = finder.seed});
}

double LayoutNetwork::cost(Priced& priced, const Finder& finder) const {
  return find_minimum(this->make_priced_network(priced), priced, finder).cost;
}

// Sums the costs of the states at `prices`, without any saving.
double LayoutNetwork::sum_costs(const std::vector<std::size_t>& state,
                                const predict::Prices& prices) const {
  double out = 0;
  for (std::size_t v = 0; v < unary_.size(); ++v) out += prices.price(unary_[v]->cost[state[v]]);
  for (const auto& [a, b, edge, segment] : edges_) {
    const auto row = edge->from().of[state[a]];
    const auto column = edge->to().of[state[b]];
    const auto& moved = edge->cost[row * edge->to().different.layouts.size() + column];
    out += (edge->blocks ? prices.blocking : prices.async) * moved.time.value;
  }
  return out;
}

LayoutNetwork::Solution LayoutNetwork::solve(const SegmentPrices& prices,
                                             const Finder& finder) const {
  Priced priced{prices};
  const auto minimum = find_minimum(this->make_priced_network(priced), priced, finder);

  Solution out{std::vector<plan::Choice>(model_.size()), minimum.cost, minimum.exact,
               minimum.computed_tables};
  if (!saves_) {
    const auto at = [&](double update, double blocking, double async) {
      return sum_costs(minimum.state, {.update = update, .blocking = blocking, .async = async});
    };
    constexpr double kStreams = 3;  // per level: collectives, sends and receives
    const auto streams = kStreams * static_cast<double>(costs_.levels());
    const auto communication = at(0, 1, 1) - at(0, 0, 0);
    out.least = std::max({at(0, 1, 0), at(1, 0, 0), communication / streams});
  }
  for (auto id : model_.ids()) {
    const auto n = id.index();
    if (operator_variable_[n] == kNoVariable) continue;
    const auto v = operator_variable_[n];
    const auto state = minimum.state[v];
    out.choices[n].node = states_[v]->nodes[state];
    const auto inputs = model_.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (is_absorbed(inputs[i]))
        out.choices[inputs[i].index()].source = states_[v]->in[i].layouts[state];
    }
    const auto* saving = find_saving(*unary_[v]);
    if (saving == nullptr) continue;
    const auto own = get_prices(prices, v);
    out.choices[n].recompute =
        own.price(saving->recomputation[state]) < 0 && !consumers_[n].empty();
    for (const auto& weight : saving->weights) {
      const double once = own.price(weight.gathered_once[state]);
      const double anew = own.price(weight.gathered_anew[state]);
      if (std::min(once, anew) >= 0) continue;
      auto& choice = out.choices[inputs[weight.operand].index()];
      choice.source = shard_stored(inputs[weight.operand], choice.source);
      choice.recompute = anew < once;
    }
  }
  for (auto id : model_.ids()) {
    const auto n = id.index();
    if (model_.node(id).op.role() != ops::Role::kSource || is_absorbed(id)) continue;
    const auto v = tensor_variable_[n];
    out.choices[n].source = v == kNoVariable ? Layout(digits_.count(), DigitRole::kReplica)
                                             : states_[v]->out.layouts[minimum.state[v]];
  }
  return out;
}

}  // namespace tandem::search
