// The layout problem of a graph as a cost network: a variable for every operator (its node layout)
// and for every tensor with several users (the layout they share it in), unary tables for compute
// and weights, edge tables for resharding. Equal operators share their states and tables.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "plan/parallelize.h"
#include "search/costs.h"
#include "search/elimination.h"
#include "search/precedence.h"
#include "search/states.h"

namespace tandem::search {

class LayoutNetwork {
 public:
  // `seeds` are choices whose states are always among those kept.
  LayoutNetwork(const graph::Graph& model, const machine::Digits& digits, CostModel& costs,
                const Dims& dims, std::size_t states_per_node,
                const std::vector<std::vector<plan::Choice>>& seeds);

  // From here on memory may be saved where its price says so: weights are stored in parts and
  // gathered for every use, results computed again for the backward pass.
  void allow_saving();

  // The cheapest choices at these prices, and their cost.
  struct Solution {
    std::vector<plan::Choice> choices;
    double cost = 0;
    bool exact = true;
    std::size_t products = 0;
  };
  Solution solve(const Prices& prices) const;

 private:
  // The states of a variable and the layouts each means at the variable's ends.
  struct States {
    Hash id = 0;
    std::vector<machine::NodeLayout> nodes;        // of an operator; empty for a tensor
    std::size_t seeds = 0;                         // how many of the first come from seeds
    std::vector<std::vector<machine::Layout>> in;  // by operand, by state
    std::vector<machine::Layout> out;              // by state
  };
  using StatesPtr = std::shared_ptr<const States>;
  struct CostTable {
    Hash id = 0;
    std::size_t rows = 0, cols = 1;
    std::vector<Cost> cost;
  };
  using CostTablePtr = std::shared_ptr<const CostTable>;
  struct Edge {
    std::size_t a, b;
    CostTablePtr table;
  };
  static constexpr std::size_t kNoVariable = static_cast<std::size_t>(-1);

  // What states of an operator cost more so; by state.
  struct Saving {
    std::vector<Cost> in_parts;  // its weights
    std::vector<Cost> again;     // its result
  };

  Hash class_of(graph::NodeId id) const;
  void add_operator(graph::NodeId id, std::size_t keep, const Dims& dims);
  void add_shared_tensor(graph::NodeId id);
  void add_edge(std::size_t from, std::size_t to, std::size_t operand, graph::NodeId tensor,
                bool blocks);
  Cost weight_cost(graph::NodeId id, const machine::Layout& layout,
                   const Shape* looked_up = nullptr);
  Cost operator_cost(graph::NodeId id, const machine::NodeLayout& layout);
  std::vector<machine::NodeLayout> kept_layouts(graph::NodeId id, std::size_t keep,
                                                const Dims& dims, std::vector<Cost>& cost);
  bool is_source(graph::NodeId id) const;
  bool has_unequal_devices();
  Saving saving_of(graph::NodeId id);
  // Can this operand be stored in parts?
  bool is_stored(graph::NodeId user, std::size_t operand) const;
  machine::Layout stored(graph::NodeId weight, const machine::Layout& used) const;
  // A weight or input with one user lies as that user wants it and has no variable.
  bool is_absorbed(graph::NodeId id) const;

  const graph::Graph& model_;
  const machine::Digits& digits_;
  CostModel& costs_;
  std::vector<strategies::AnalyzedNode> nodes_;
  std::vector<std::vector<graph::NodeId>> consumers_;
  std::vector<bool> gradient_;
  Precedence precedence_;
  std::vector<cost::KernelRole> roles_;
  bool places_ = false;  // do the states of operators and tensors differ by idle digits' places?
  std::map<Hash, std::vector<machine::NodeLayout>> seeds_;  // by class

  std::vector<StatesPtr> states_;              // by variable
  std::vector<CostTablePtr> unary_;            // by variable
  std::map<const CostTable*, Saving> saving_;  // by unary table
  std::vector<Edge> edges_;
  std::vector<std::size_t> operator_variable_;  // by node
  std::vector<std::size_t> tensor_variable_;    // by node, of the tensor its users read
  std::map<Hash, std::pair<StatesPtr, CostTablePtr>> classes_;
  std::map<Hash, CostTablePtr> edge_tables_;
};

}  // namespace tandem::search
