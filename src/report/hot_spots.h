// Splits the time and memory of a step by operators and tensors. Equal layers are one group:
// "l*.ffn1" x24.
#pragma once

#include <string>
#include <vector>

#include "lower/program.h"
#include "predict/memory.h"
#include "report/task_times.h"

namespace tandem::report {

// Nodes whose names differ only in a number.
struct NodeGroup {
  std::string name;       // name of a single node, or folded name of several: "l*.ffn1"
  std::size_t count = 0;  // number of nodes

  [[nodiscard]] std::string text() const;  // "l*.ffn1 x24"
};

// Compute time of a group of nodes in one step.
struct OperatorTime {
  NodeGroup group;
  std::string op;  // "linear"; "weight update", "gradient sum"
  Seconds forward, backward;
  Seconds recompute;  // recomputation in the backward pass
  Seconds update;     // updates of weights
  [[nodiscard]] Seconds total() const { return forward + backward + recompute + update; }
};

// Return the compute times, longest first, by group of nodes or by operator. The times of each list
// sum to Simulation::compute.
std::vector<OperatorTime> sum_times_by_node(const lower::Program& program,
                                            const std::vector<TaskTime>& times);
std::vector<OperatorTime> sum_times_by_operator(const lower::Program& program,
                                                const std::vector<TaskTime>& times);

// Transfers of one group of tensors over the same levels.
struct TransferGroup {
  std::string what;  // "all_reduce of the gradient of w*"
  std::string kind;  // "all_reduce"
  machine::DigitMask digits = 0;
  std::int64_t times = 0;  // transfers per step
  Bytes bytes;             // bytes of all transfers
  Seconds serialized, exposed;
};

// Returns the transfers, most exposed first.
std::vector<TransferGroup> sum_transfers_by_tensor(const lower::Program& program,
                                                   const std::vector<TaskTime>& times);

// Tensors of one kind whose names differ only in a number.
struct TensorGroup {
  NodeGroup group;   // its count is the number of tensors held at once
  std::string part;  // "weights", "optimizer state", "activations", "gradients", "inputs"
  Bytes bytes;       // bytes of all tensors
};

// Returns the tensors that the device of `memory` holds at its peak, largest first. They sum to the
// peak without Memory::unused.
std::vector<TensorGroup> list_tensors_at_peak(const lower::Program& program,
                                              const predict::Memory& memory);

}  // namespace tandem::report
