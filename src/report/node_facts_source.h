// Indexes a plan once for the facts of many nodes: consumers of each node, tasks that concern it,
// and their times.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "predict/kernels.h"
#include "report/plan_view.h"
#include "report/task_times.h"
#include "strategies/factor_kinds.h"

namespace tandem::report {

class NodeFactsSource {
 public:
  // `view` and what it refers to must outlive it.
  explicit NodeFactsSource(const PlanView& view);

  // Returns the tasks that may concern a node, in the program's order: those of the node, those
  // that move an operand or its result, and those that read its result in the backward pass. May
  // return others. For a parallelization operator, returns the transfers of its chain.
  [[nodiscard]] const std::vector<std::size_t>& tasks_about(graph::NodeId id) const;
  // Returns the last node of the chain of parallelization operators that contains `id`.
  [[nodiscard]] graph::NodeId find_chain_end(graph::NodeId id) const;
  // Returns the number of nodes with the same operator, type and layout whose names differ only in
  // a number.
  [[nodiscard]] std::size_t equivalent_count(graph::NodeId id) const;
  // Returns sum_task_times of a class. Not thread-safe.
  [[nodiscard]] const std::vector<TaskTime>& times(std::uint32_t device_class) const;

  const PlanView view;
  const std::vector<std::vector<graph::NodeId>> consumers;
  const std::vector<bool> has_gradient;
  const std::vector<strategies::AnalyzedNode> analyzed;
  const std::vector<predict::KernelRole> kernels;
  std::vector<bool> recomputed;  // by buffer: whether it is recomputed or regathered
  // Class of devices of each node: the busiest class if it runs the node, else the first that does.
  std::vector<std::uint32_t> class_of;

 private:
  void index_tasks();
  void index_chains();
  void index_classes();
  void count_equivalent_nodes();
  // Adds `task` to the model's nodes that read `id`, through parallelization operators.
  void add_users(graph::NodeId id, std::size_t task);
  void add(graph::NodeId id, std::size_t task);

  using Kind = std::pair<graph::NodeId, std::size_t>;  // first node of a kind, number of nodes
  std::vector<std::vector<std::size_t>> tasks_;        // by node
  std::unordered_map<std::string, std::vector<Kind>> kinds_;  // by folded name
  mutable std::map<std::uint32_t, std::vector<TaskTime>> times_;
};

}  // namespace tandem::report
