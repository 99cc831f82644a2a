#include "lower/prefetch_gathers.h"

#include <algorithm>
#include <utility>

namespace tandem::lower {

namespace {

// The order in which tasks run: a list of their indices that grows one by one.
class TaskOrder {
 public:
  explicit TaskOrder(const Program& program)
      : program_(program), before_sum_(static_cast<std::size_t>(program.schedule.stages)) {}

  // Inserts task `t` at its place in the order.
  void add_task(std::size_t t) {
    const auto& task = program_.tasks[t];
    auto& before = before_sum_[task.stage];
    if (is_regather(task) && before.at) {
      return insert(t, *before.at);
    }
    if (is_gradient_reduction(task)) {
      if (!before.at || before.computes_since) before = {order_.size(), false};
    } else if (task.kind == TaskKind::kBackward) {
      before.computes_since = true;
    }
    order_.push_back(t);
  }

  [[nodiscard]] const std::vector<std::size_t>& order() const { return order_; }

 private:
  // The position of a stage's most recent gradient reductions in the order.
  struct BeforeSum {
    // index of the first of them
    std::optional<std::size_t> at;
    bool computes_since = false;  // whether the stage has computed gradients after it
  };

  // Returns whether the task gathers a weight for the backward pass, or is a step of that.
  [[nodiscard]] bool is_regather(const Task& task) const {
    return task.kind == TaskKind::kMove && task.recomputed &&
           comes_from_weight(program_.pcg, task.node);
  }
  // Returns whether the task reduces a weight's gradient over devices.
  [[nodiscard]] bool is_gradient_reduction(const Task& task) const {
    return task.kind == TaskKind::kMove && task.backward && !task.recomputed &&
           !is_local(task.step.kind) && comes_from_weight(program_.pcg, task.node);
  }

  void insert(std::size_t t, std::size_t at) {
    order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(at), t);
    for (auto& before : before_sum_) {
      if (before.at && *before.at >= at) ++*before.at;
    }
  }

  const Program& program_;
  std::vector<std::size_t> order_;
  std::vector<BeforeSum> before_sum_;  // by stage
};

}  // namespace

void prefetch_weight_gathers(Program& program) {
  TaskOrder order(program);
  for (std::size_t t = 0; t < program.tasks.size(); ++t) order.add_task(t);
  auto tasks = std::exchange(program.tasks, {});
  std::vector<std::size_t> moved_to(tasks.size());
  for (auto t : order.order()) {
    moved_to[t] = program.tasks.size();
    program.tasks.push_back(std::move(tasks[t]));
  }
  for (auto& task : program.tasks) {
    if (task.kind == TaskKind::kReceive) task.peer = moved_to[task.peer];
  }
}

}  // namespace tandem::lower
