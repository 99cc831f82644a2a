// Where the time and the memory of a step go, by operators and tensors: layers that are equal are
// one group ("l*.ffn1" x24).
#pragma once

#include <string>
#include <vector>

#include "lower/program.h"
#include "predict/memory.h"
#include "report/task_times.h"

namespace tandem::report {

// "l*.ffn1 x24"; of one its own name.
struct NodeGroup {
  std::string name;       // of the only one, or folded
  std::size_t count = 0;  // of nodes

  [[nodiscard]] std::string text() const;
};

struct OperatorTime {
  NodeGroup group;
  std::string op;  // "linear"; "weight update", "gradient sum"
  Seconds forward, backward;
  Seconds again;   // forward, but in the backward pass
  Seconds update;  // of weights
  [[nodiscard]] Seconds total() const { return forward + backward + again + update; }
};

// What computes, the longest first: by groups of nodes, and by operator, where a group has all.
// They add up to Simulation::compute.
std::vector<OperatorTime> times_by_node(const lower::Program& program,
                                        const std::vector<TaskTime>& times);
std::vector<OperatorTime> times_by_operator(const lower::Program& program,
                                            const std::vector<TaskTime>& times);

struct Transfer {
  std::string what;  // "all_reduce of the gradient of w*"
  std::string kind;  // "all_reduce"
  machine::DigitMask digits = 0;
  std::int64_t times = 0;  // a step
  Bytes bytes;             // of all times
  Seconds serialized, exposed;
};

// What communicates, the most exposed first.
std::vector<Transfer> transfers_by_tensor(const lower::Program& program,
                                          const std::vector<TaskTime>& times);

struct TensorGroup {
  NodeGroup group;   // count: of tensors there at once
  std::string part;  // "weights", "optimizer state", "activations", "gradients", "inputs"
  Bytes bytes;       // of all
};

// What the device of `memory` holds at its peak, the largest first. They add up to the peak but for
// Memory::unused.
std::vector<TensorGroup> tensors_at_peak(const lower::Program& program,
                                         const predict::Memory& memory);

}  // namespace tandem::report
