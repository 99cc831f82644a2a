// The layout problem of a graph as a cost network. It has a variable for every operator (its node
// layout) and for every tensor with several users (the layout that they share). Unary tables hold
// compute and weights, edge tables hold resharding. Equal operators share their states and tables.
//
// Example: h = linear(x, w), r = relu(h), y = add(h, r). The variables are h, r, y and the tensor H
// of h, which r and y share. The edges are h - H, H - r, H - y and r - y. The operator h determines
// the layouts of x and w.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "plan/parallelize.h"
#include "predict/cost_model.h"
#include "search/solver/elimination.h"
#include "search/space/finder.h"
#include "search/space/precedence.h"
#include "search/space/segment_prices.h"
#include "search/space/states.h"

namespace tandem::search {

// The pass that the graph stands for: the whole step, or one micro-batch on the devices of a stage.
struct Pass {
  machine::DigitMask redundant = 0;  // digits that nothing is laid out over
  machine::DigitMask stages = 0;  // of these, those between stages: shared weights are sent there
  double times = 1;               // number of sequential runs
  double in_flight = 1;           // number of runs whose saved tensors exist at once
};

class LayoutNetwork {
  // The layouts of one operand or of the result, for all states of a variable. Many states have the
  // same layout.
  struct StateLayouts {
    std::vector<machine::Layout> layouts;  // by state
    predict::CostModel::LayoutList different;
    std::vector<std::uint32_t> of;  // by state: index into `different`
  };
  struct States {
    Hash id = 0;
    std::vector<machine::NodeLayout> nodes;  // of an operator; empty for a tensor
    std::size_t initial_states = 0;          // number of leading states that come from seeds
    std::vector<StateLayouts> in;            // by operand
    StateLayouts out;
  };
  using StatesPtr = std::shared_ptr<const States>;
  struct UnaryCostTable {
    Hash id = 0;
    std::vector<predict::Cost> cost;  // by state
  };
  using CostTablePtr = std::shared_ptr<const UnaryCostTable>;
  // Costs of resharding a tensor from one end to the other.
  struct EdgeTable {
    Hash id = 0;
    StatesPtr a, b;
    std::size_t operand = 0;  // operand of b
    bool blocks = false;
    double users = 1;  // users of the tensor; those that want one layout share its resharding
    std::vector<predict::CostModel::ReshardCost> cost;  // by pair of different layouts

    [[nodiscard]] const StateLayouts& from() const { return a->out; }
    [[nodiscard]] const StateLayouts& to() const { return b->in[operand]; }
  };
  using EdgeTablePtr = std::shared_ptr<const EdgeTable>;
  struct LayoutEdge {
    std::size_t a, b;
    EdgeTablePtr table;
    Segment segment;
  };

  // All layouts that an operator may take, and their costs.
  struct Listed {
    std::vector<machine::NodeLayout> layouts;
    std::vector<predict::Cost> cost;
    std::vector<double> rank;  // cost including the weights that it reads
  };

  // Extra costs of an operator's states if weights are sharded or results recomputed, by state.
  struct Saving {
    struct WeightSaving {
      std::size_t operand;
      std::vector<predict::Cost> gathered_once;  // sharded, gathered once a step
      std::vector<predict::Cost> gathered_anew;  // sharded, regathered for every use
    };
    std::vector<WeightSaving> weights;
    std::vector<predict::Cost> recomputation;  // recomputation of its result
  };

 public:
  // Tables by class of operators, tensors and edges. Networks of one machine with equal dimensions
  // may share them.
  struct Tables {
    std::unordered_map<Hash, Listed> listed;
    std::unordered_map<Hash, std::pair<StatesPtr, CostTablePtr>> classes;
    std::unordered_map<Hash, EdgeTablePtr> edges;
    std::unordered_map<const UnaryCostTable*, Saving> saving;  // by unary table
  };
  // Tables at these prices, and what elimination computed from them. Networks that share Tables may
  // share them.
  struct Priced {
    SegmentPrices prices;
    // By segment; then again by segment, for gradients that are ready last.
    std::array<std::unordered_map<CostTablePtr, TablePtr>, 2 * kSegments> unary = {};
    std::array<std::unordered_map<EdgeTablePtr, TablePtr>, kSegments> edges = {};
    MadeTables cache = {};

    // Returns the number of cached entries.
    [[nodiscard]] std::size_t size() const { return cache.entries; }
  };

  // The states of `seeds` are always retained.
  LayoutNetwork(const graph::Graph& model, const machine::Digits& digits, predict::CostModel& costs,
                const Dims& dims, std::size_t states_per_node,
                const std::vector<std::vector<plan::Choice>>& seeds, const Pass& pass = {},
                std::shared_ptr<Tables> tables = std::make_shared<Tables>());

  // Lets later calls save memory and updates where that pays. Weights are sharded and gathered once
  // a step or for every use, and results are recomputed for the backward pass.
  void allow_saving();

  // The cheapest choices at given prices, and their cost.
  struct Solution {
    std::vector<plan::Choice> choices;
    double cost = 0;
    bool exact = true;
    std::size_t computed_tables = 0;
    // Lower bound of the step time in seconds if every operator is on all devices. It is the
    // largest of compute with blocking communication, compute with updates, and all communication
    // over its streams.
    double least = 0;
  };
  Solution solve(const SegmentPrices& prices, const Finder& finder = {}) const;
  // Returns only the cost of the cheapest choices.
  double cost(Priced& priced, const Finder& finder = {}) const;

  // Returns whether the whole forward pass precedes the loss, and so the backward pass.
  [[nodiscard]] bool has_two_phases() const {
    const auto loss = model_.outputs()[0];
    return consumers_[loss.index()].empty() && precedence_.blocks(loss);
  }

  [[nodiscard]] bool has(Segment segment) const { return precedence_.has(segment); }

 private:
  static constexpr std::size_t kNoVariable = static_cast<std::size_t>(-1);

  Hash compute_class(graph::NodeId id) const;
  void add_operator(graph::NodeId id, std::size_t keep, const Dims& dims);
  std::vector<machine::Layout> list_shared_layouts(graph::NodeId id) const;
  Hash compute_shared_class(graph::NodeId id) const;
  void add_shared_tensor(graph::NodeId id);
  void add_edge(std::size_t from, std::size_t to, std::size_t operand, graph::NodeId tensor,
                bool blocks, std::size_t users = 1);
  predict::Cost weight_cost(graph::NodeId id, const machine::Layout& layout,
                            const Shape* looked_up = nullptr, bool of_product = false);
  // Returns the cost of weights with several readers, as this operator's layout implies it.
  predict::Cost shared_weights_cost(graph::NodeId id, const machine::NodeLayout& layout);
  predict::Cost compute_cost(graph::NodeId id, const machine::NodeLayout& layout) const;
  // Returns the compute cost plus halos of the operands and the costs of the operator's own
  // weights.
  predict::Cost operator_cost(graph::NodeId id, const machine::NodeLayout& layout,
                              const predict::Cost& compute);
  Hash hash_degrees(const machine::NodeLayout& layout) const;
  const Listed& get_listed(graph::NodeId id, const Dims& dims);
  void append_layout(graph::NodeId id, const machine::NodeLayout& layout,
                     const predict::Cost& compute, Listed& to);
  std::vector<machine::NodeLayout> choose_layouts(graph::NodeId id, std::size_t keep,
                                                  const Dims& dims,
                                                  std::vector<predict::Cost>& cost);
  StateLayouts make_state_layouts(std::vector<machine::Layout> layouts);
  bool is_source(graph::NodeId id) const;
  // Returns, by node, whether almost nothing of the backward pass comes after it.
  [[nodiscard]] std::vector<bool> find_late_gradients() const;
  // Returns the prices of a variable. Almost nothing can overlap gradients that are ready last
  // (predict::Prices::late).
  [[nodiscard]] predict::Prices get_prices(const SegmentPrices& prices, std::size_t variable) const;
  bool has_unequal_devices();
  Saving compute_saving(graph::NodeId id);
  // Returns the extra costs for a unary table if saving is allowed for it; else null.
  const Saving* find_saving(const UnaryCostTable& unary) const;
  // Returns whether this operand can be stored sharded.
  bool can_shard(graph::NodeId user, std::size_t operand) const;
  machine::Layout shard_stored(graph::NodeId weight, const machine::Layout& used) const;
  // Returns whether it is a weight or input with one user. Such a tensor has the layout that its
  // user wants, and no variable.
  bool is_absorbed(graph::NodeId id) const;
  std::vector<float> price_table(const predict::Prices& prices, const UnaryCostTable& unary) const;
  static std::vector<float> price_table(const predict::Prices& prices, const EdgeTable& edge);
  CostNetwork make_priced_network(Priced& make_priced_network) const;
  [[nodiscard]] double sum_costs(const std::vector<std::size_t>& state,
                                 const predict::Prices& prices) const;
  Minimum find_minimum(const CostNetwork& network, Priced& priced, const Finder& finder) const;

  const graph::Graph& model_;
  const machine::Digits& digits_;
  predict::CostModel& costs_;
  const Pass pass_;
  const Hash pass_hash_;
  std::vector<strategies::AnalyzedNode> nodes_;
  std::vector<std::vector<graph::NodeId>> consumers_;
  std::vector<bool> gradient_;
  Precedence precedence_;
  std::vector<predict::KernelRole> roles_;
  bool places_ = false;        // whether states distinguish the places of idle digits
  std::vector<Hash> classes_;  // by node
  std::unordered_map<Hash, std::vector<machine::NodeLayout>> initial_layouts_;  // by class

  std::vector<StatesPtr> states_;    // by variable
  std::vector<CostTablePtr> unary_;  // by variable
  std::vector<Segment> segments_;    // by variable
  std::vector<bool> is_late_;        // by variable: find_late_gradients
  std::vector<LayoutEdge> edges_;
  std::vector<std::size_t> operator_variable_;  // by node
  std::vector<std::size_t> tensor_variable_;  // by node: variable of the tensor that its users read
  std::shared_ptr<Tables> tables_;
  bool saves_ = false;
};

}  // namespace tandem::search
