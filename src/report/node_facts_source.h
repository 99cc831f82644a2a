// What the facts of all nodes of a plan are read from, made once for many: who reads what, which
// tasks are about which node, and what they take.
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

  // In the program's order, those whose node it is, that move an operand or the result of it, or
  // that read its result in the backward pass, and maybe others. Of a parallelization operator all
  // tasks.
  [[nodiscard]] const std::vector<std::size_t>& tasks_about(graph::NodeId id) const;
  // How many nodes are called alike, but for a number, do the same and lie alike.
  [[nodiscard]] std::size_t alike(graph::NodeId id) const;
  // task_times of a class. Not thread-safe.
  [[nodiscard]] const std::vector<TaskTime>& times(std::uint32_t device_class) const;

  const PlanView view;
  const std::vector<std::vector<graph::NodeId>> consumers;
  const std::vector<bool> has_gradient;
  const std::vector<strategies::AnalyzedNode> analyzed;
  const std::vector<predict::KernelRole> kernels;
  std::vector<bool> made_again;         // by buffer: for the backward pass
  std::vector<std::uint32_t> class_of;  // by node: the busiest if it runs it, else the first

 private:
  void index_tasks();
  void index_classes();
  void count_alike();
  // Those of the model that read it, through parallelization operators.
  void add_users(graph::NodeId id, std::size_t task);
  void add(graph::NodeId id, std::size_t task);

  using Kind = std::pair<graph::NodeId, std::size_t>;  // the first of a kind, and how many
  std::vector<std::vector<std::size_t>> tasks_;        // by node
  std::vector<std::size_t> all_tasks_;
  std::unordered_map<std::string, std::vector<Kind>> kinds_;  // by folded name
  mutable std::map<std::uint32_t, std::vector<TaskTime>> times_;
};

}  // namespace tandem::report
