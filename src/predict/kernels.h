// Which operators of a graph one kernel executes together, as the software does it: decided once
// for a graph, for both directions. Read off index texts and meanings alone.
//
// With `fuse yes`, y = gelu(x w + b) in three nodes is a product with its bias, and gelu; a chain
// dropout, add of a residual is one kernel that reads two tensors and writes one. A parallelization
// operator between two nodes keeps them apart, so a PCG has no more fusion than its model.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "machine/machine.h"

namespace tandem::predict {

// An operator's part of a kernel.
struct KernelRole {
  ops::InputMask inside = 0;  // operands that the kernel itself makes: it does not read them
  bool hidden = false;        // nobody outside of the kernel reads its result
  double forward = 1;         // kernels that are launched for it
  double backward = 1;
  double forward_passes = 1;  // how often its bytes are moved
  double backward_passes = 1;
  double joined = 1;             // its product is this part of one: columns of all over its own
  bool gradient_joined = false;  // its gradient of that operand comes with another's

  bool operator==(const KernelRole&) const = default;
};

// By node. Empty where every operator is a kernel of its own.
std::vector<KernelRole> kernels_of(const graph::Graph& graph, const machine::Software& software);

// Of one node in what kernels_of gave.
inline KernelRole role_of(const std::vector<KernelRole>& roles, graph::NodeId id) {
  return roles.empty() ? KernelRole{} : roles[id.index()];
}

Hash hash_of(const KernelRole& role);

}  // namespace tandem::predict
