// The layout problem of a graph as a cost network: a variable for every operator (its node layout)
// and for every tensor with several users (the layout they share it in), unary tables for compute
// and weights, edge tables for resharding. Equal operators share their states and tables.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "plan/parallelize.h"
#include "predict/tables.h"
#include "search/solver/elimination.h"
#include "search/space/finder.h"
#include "search/space/precedence.h"
#include "search/space/segment_prices.h"
#include "search/space/states.h"

namespace tandem::search {

// What the graph is a pass of: the whole step, or a micro-batch of it on a stage's devices.
struct Pass {
  machine::DigitMask redundant = 0;  // digits that nothing is laid out over
  machine::DigitMask stages = 0;  // of these, those between stages: shared weights are sent there
  double times = 1;               // how often it runs, one after another
  double kept = 1;                // how many leave at once what the backward pass needs
};

class LayoutNetwork {
  // The layouts that a variable's states mean for one operand, or for its result: many states have
  // the same.
  struct End {
    std::vector<machine::Layout> layouts;  // by state
    predict::CostModel::LayoutList different;
    std::vector<std::uint32_t> of;  // by state, of the different ones
  };
  struct States {
    Hash id = 0;
    std::vector<machine::NodeLayout> nodes;  // of an operator; empty for a tensor
    std::size_t seeds = 0;                   // how many of the first come from seeds
    std::vector<End> in;                     // by operand
    End out;
  };
  using StatesPtr = std::shared_ptr<const States>;
  struct CostTable {
    Hash id = 0;
    std::vector<predict::Cost> cost;  // by state
  };
  using CostTablePtr = std::shared_ptr<const CostTable>;
  // What it costs to bring a tensor from one end to another.
  struct EdgeTable {
    Hash id = 0;
    StatesPtr a, b;
    std::size_t operand = 0;  // of b
    bool blocks = false;
    double users = 1;  // of the tensor: those that want it in one layout share its way there
    std::vector<predict::CostModel::Moved> cost;  // by different layouts

    [[nodiscard]] const End& from() const { return a->out; }
    [[nodiscard]] const End& to() const { return b->in[operand]; }
  };
  using EdgeTablePtr = std::shared_ptr<const EdgeTable>;
  struct Edge {
    std::size_t a, b;
    EdgeTablePtr table;
    Segment segment;
  };

  // All layouts that an operator may take, and what they cost.
  struct Listed {
    std::vector<machine::NodeLayout> layouts;
    std::vector<predict::Cost> cost;
    std::vector<double> rank;  // with the weights that it reads
  };

  // What states of an operator cost more so; by state.
  struct Saving {
    struct Weight {
      std::size_t operand;
      std::vector<predict::Cost> gathered_once;  // in parts
      std::vector<predict::Cost> gathered_anew;  // the same
    };
    std::vector<Weight> weights;
    std::vector<predict::Cost> again;  // its result
  };

 public:
  // By class of operators, tensors and edges: networks of one machine, with equal dimensions, may
  // share them.
  struct Tables {
    std::unordered_map<Hash, Listed> listed;
    std::unordered_map<Hash, std::pair<StatesPtr, CostTablePtr>> classes;
    std::unordered_map<Hash, EdgeTablePtr> edges;
    std::unordered_map<const CostTable*, Saving> saving;  // by unary table
  };
  // Tables at these prices, and what elimination makes of them; networks that share Tables may
  // share them.
  struct Priced {
    SegmentPrices prices;
    std::array<std::unordered_map<CostTablePtr, TablePtr>, kSegments> unary = {};
    std::array<std::unordered_map<EdgeTablePtr, TablePtr>, kSegments> edges = {};
    MadeTables made = {};

    // Numbers that are kept.
    [[nodiscard]] std::size_t size() const { return made.entries; }
  };

  // `seeds` are choices whose states are always among those kept.
  LayoutNetwork(const graph::Graph& model, const machine::Digits& digits, predict::CostModel& costs,
                const Dims& dims, std::size_t states_per_node,
                const std::vector<std::vector<plan::Choice>>& seeds, const Pass& pass = {},
                std::shared_ptr<Tables> tables = std::make_shared<Tables>());

  // From here on updates and memory may be saved where that pays: weights are stored in parts and
  // gathered once a step or for every use, results computed again for the backward pass.
  void allow_saving();

  // The cheapest choices at these prices, and their cost.
  struct Solution {
    std::vector<plan::Choice> choices;
    double cost = 0;
    bool exact = true;
    std::size_t products = 0;
    // Lower bound of the step's seconds where every operator is on all devices: compute and what
    // blocks, or compute and updates, which may overlap each other, or all communication.
    double least = 0;
  };
  Solution solve(const SegmentPrices& prices, const Finder& finder = {}) const;
  // Their cost alone.
  double cost(Priced& priced, const Finder& finder = {}) const;

  // Does all of the forward pass come before the loss, and so before the backward pass?
  [[nodiscard]] bool has_two_phases() const {
    const auto loss = model_.outputs()[0];
    return consumers_[loss.index()].empty() && precedence_.blocks(loss);
  }

  [[nodiscard]] bool has(Segment segment) const { return precedence_.has(segment); }

 private:
  static constexpr std::size_t kNoVariable = static_cast<std::size_t>(-1);

  Hash class_of(graph::NodeId id) const;
  void add_operator(graph::NodeId id, std::size_t keep, const Dims& dims);
  std::vector<machine::Layout> shared_layouts(graph::NodeId id) const;
  Hash class_of_shared(graph::NodeId id) const;
  void add_shared_tensor(graph::NodeId id);
  void add_edge(std::size_t from, std::size_t to, std::size_t operand, graph::NodeId tensor,
                bool blocks, std::size_t users = 1);
  predict::Cost weight_cost(graph::NodeId id, const machine::Layout& layout,
                            const Shape* looked_up = nullptr, bool of_product = false);
  // What the layout of an operator says of weights that others read, too.
  predict::Cost shared_weights_cost(graph::NodeId id, const machine::NodeLayout& layout);
  predict::Cost compute_cost(graph::NodeId id, const machine::NodeLayout& layout) const;
  // With what it reads in windows, and its own weights.
  predict::Cost operator_cost(graph::NodeId id, const machine::NodeLayout& layout,
                              const predict::Cost& compute);
  Hash parts_of(const machine::NodeLayout& layout) const;
  const Listed& listed(graph::NodeId id, const Dims& dims);
  void list(graph::NodeId id, const machine::NodeLayout& layout, const predict::Cost& compute,
            Listed& to);
  std::vector<machine::NodeLayout> kept_layouts(graph::NodeId id, std::size_t keep,
                                                const Dims& dims, std::vector<predict::Cost>& cost);
  End end_of(std::vector<machine::Layout> layouts);
  bool is_source(graph::NodeId id) const;
  bool has_unequal_devices();
  Saving saving_of(graph::NodeId id);
  // Of a unary table, where it may be saved; else null.
  const Saving* saving_of(const CostTable& unary) const;
  // Can this operand be stored in parts?
  bool is_stored(graph::NodeId user, std::size_t operand) const;
  machine::Layout stored(graph::NodeId weight, const machine::Layout& used) const;
  // A weight or input with one user lies as that user wants it and has no variable.
  bool is_absorbed(graph::NodeId id) const;
  std::vector<float> at_prices(const predict::Prices& prices, const CostTable& unary) const;
  static std::vector<float> at_prices(const predict::Prices& prices, const EdgeTable& edge);
  Network priced(Priced& priced) const;
  [[nodiscard]] double cost_of(const std::vector<std::size_t>& state,
                               const predict::Prices& prices) const;
  Minimum find(const Network& network, Priced& priced, const Finder& finder) const;

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
  bool places_ = false;  // do the states of operators and tensors differ by idle digits' places?
  std::vector<Hash> classes_;                                         // by node
  std::unordered_map<Hash, std::vector<machine::NodeLayout>> seeds_;  // by class

  std::vector<StatesPtr> states_;    // by variable
  std::vector<CostTablePtr> unary_;  // by variable
  std::vector<Segment> segments_;    // by variable
  std::vector<Edge> edges_;
  std::vector<std::size_t> operator_variable_;  // by node
  std::vector<std::size_t> tensor_variable_;    // by node, of the tensor its users read
  std::shared_ptr<Tables> tables_;
  bool saves_ = false;
};

}  // namespace tandem::search
