// How long every task of a program takes on the devices of every group, by the cost model.
#pragma once

#include <vector>

#include "cost/operator_time.h"
#include "lower/program.h"

namespace tandem::sim {

class Durations {
 public:
  Durations(const lower::Program& program, const machine::Machine& machine);

  [[nodiscard]] Seconds of(std::size_t task, std::size_t group) const {
    return duration_[task * devices_.size() + group];
  }
  // Of all devices together, redundant work not counted.
  [[nodiscard]] Flops model_flops() const { return model_flops_; }
  [[nodiscard]] Flops model_flops(std::size_t task) const { return flops_of_task_[task]; }

 private:
  void add(const lower::Task& task);
  void add_for_all(Seconds time);
  void add_work(const cost::Work& work, DType dtype);

  [[nodiscard]] Seconds move_time(const lower::Task& task) const;
  cost::Work operator_work(const lower::Task& task);
  template <class Part>
  cost::Work work_of(const lower::Task& task, Part&& part) const;
  [[nodiscard]] cost::Work work_of_block(const lower::Task& task) const;
  [[nodiscard]] cost::Work streaming_work(const lower::Task& task) const;
  [[nodiscard]] cost::Work update_work(const lower::Task& task) const;

  const lower::Program& program_;
  const machine::Machine& machine_;
  std::vector<const machine::Device*> devices_;  // by group; one where all are equal
  std::vector<Seconds> duration_;                // by task and group
  Flops model_flops_;
  std::vector<Flops> flops_of_task_;
};

}  // namespace tandem::sim
