// Finds the operators of a graph that the software fuses into one kernel, forward and backward. The
// analysis uses only index texts and meanings of operators.
//
// With `fuse yes`, y = gelu(x w + b) in three nodes is a matmul with fused bias and a gelu kernel.
// A chain of dropout and residual add is one kernel that reads two tensors and writes one. A
// parallelization operator between two nodes prevents fusion, so a PCG has no more fusion than its
// model.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "machine/machine.h"

namespace tandem::predict {

// Role of an operator in its kernel.
struct KernelRole {
  ops::InputMask inside = 0;  // operands that the kernel computes itself and does not read
  bool hidden = false;        // only the kernel itself reads its result
  double forward = 1;         // kernels launched for it
  double backward = 1;
  double forward_passes = 1;  // number of times that its bytes are moved
  double backward_passes = 1;
  double joined = 1;             // its matmul is part of a fused one: columns of all / own columns
  bool gradient_joined = false;  // its operand's gradient is part of another operator's

  bool operator==(const KernelRole&) const = default;
};

// Returns the role of each node. Returns an empty vector if every operator is a kernel of its own.
std::vector<KernelRole> find_kernel_roles(const graph::Graph& graph,
                                          const machine::Software& software);

// Returns the role of node `id` in the result of find_kernel_roles.
inline KernelRole get_role(const std::vector<KernelRole>& roles, graph::NodeId id) {
  return roles.empty() ? KernelRole{} : roles[id.index()];
}

Hash hash_role(const KernelRole& role);

}  // namespace tandem::predict
