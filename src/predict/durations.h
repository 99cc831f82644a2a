// Predicted times of each task of a program on the devices of each machine group. The hosts of
// these devices take additional time to dispatch the task.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "lower/program.h"
#include "predict/task_work.h"

namespace tandem::predict {

// Costs of an operator's task. They are cached by Durations::make_key, so equal layers are costed
// once.
struct OperatorCost {
  Work work;
  Flops model;
};
using Operations = std::unordered_map<Hash, OperatorCost>;

class Durations {
 public:
  // `known` caches operators' costs for other programs on devices with the same software.
  Durations(const lower::Program& program, const machine::Machine& machine,
            Operations* known = nullptr);
  Durations(const Durations&) = delete;
  Durations& operator=(const Durations&) = delete;

  [[nodiscard]] Seconds get_duration(std::size_t task, std::size_t group) const {
    return duration_[task * devices_.size() + group];
  }
  // Returns the time that the host takes to dispatch `task` before it can start.
  [[nodiscard]] Seconds dispatch_time(std::size_t task, std::size_t group) const {
    return dispatch_.empty() ? Seconds{} : dispatch_[task * devices_.size() + group];
  }
  // Returns the work of one device; empty for moves and other tasks without compute.
  [[nodiscard]] Work work(const lower::Task& task) const;
  // Returns the model flops of all devices together. Redundant work does not count.
  [[nodiscard]] Flops model_flops() const { return model_flops_; }
  [[nodiscard]] Flops model_flops(std::size_t task) const { return flops_of_task_[task]; }
  // Returns whether `task` is part of the one collective that sums all gradients.
  [[nodiscard]] bool is_joined(std::size_t task) const { return !joined_.empty() && joined_[task]; }

 private:
  void add_task(std::size_t task);
  enum DispatchKind { kNothing, kCollective, kSend };  // kind of dispatch by the host
  void add_for_all(Seconds time, DispatchKind what);
  void add_work(const lower::Task& task, const Work& work, DType dtype);

  void add_move(std::size_t task);
  [[nodiscard]] Seconds move_time(const lower::Task& task) const;
  [[nodiscard]] Hash make_key(const lower::Task& task) const;
  const OperatorCost& find_operator_cost(const lower::Task& task) const;
  [[nodiscard]] Work compute_operator_work(const lower::Task& task,
                                           std::span<const TensorType> inputs,
                                           const TensorType& output) const;
  [[nodiscard]] Flops compute_model_flops(const lower::Task& task) const;
  [[nodiscard]] Work compute_block_work(const lower::Task& task) const;
  [[nodiscard]] Work streaming_work(const lower::Task& task) const;
  [[nodiscard]] bool is_fused_into_matmul(const lower::Task& task) const;
  [[nodiscard]] Work update_work(const lower::Task& task) const;

  const lower::Program& program_;
  const machine::Machine& machine_;
  std::vector<const machine::Device*> devices_;  // by group; one if all are equal
  std::vector<KernelRole> roles_;                // by node
  std::vector<Hash> types_;                      // by node: hash of its type
  std::vector<bool> joined_;                     // by task; empty if none is joined
  std::vector<std::optional<graph::NodeId>>
      gradient_nodes_;  // by buffer: node of its backward task
  Operations own_;
  Operations& operations_;
  std::vector<Seconds> duration_;  // by task and group
  std::vector<Seconds> dispatch_;  // in the same order; empty if no host takes time
  Flops model_flops_;
  std::vector<Flops> flops_of_task_;
};

}  // namespace tandem::predict
