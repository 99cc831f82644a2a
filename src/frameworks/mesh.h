// A plan's devices as a PyTorch device mesh. Digits that have the same role for every tensor form
// one dimension of the mesh. Two dimensions are separate: along them every operator only takes its
// part of the batch, which is data parallelism and is left to FSDP. Along the others, tensors are
// DTensors.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace tandem::frameworks {

struct MeshDim {
  std::string name;
  machine::DigitMask digits = 0;
  std::int64_t size = 1;
};

struct Mesh {
  // Dimensions of data parallelism: weights are replicated over `replicate` and sharded over
  // `shard`. With data parallelism both exist, with size 1 if necessary.
  MeshDim replicate{.name = "replicate"};
  MeshDim shard{.name = "shard"};
  std::vector<MeshDim> planned;

  [[nodiscard]] bool has_data() const { return (replicate.digits | shard.digits) != 0; }
  // Returns the dimensions of the mesh in order.
  [[nodiscard]] std::vector<MeshDim> dims() const;
};

// Returns the tensors that operators read or write. The layouts between them, inside chains of
// parallelization operators, do not matter.
std::vector<graph::NodeId> list_tensors(const graph::Graph& pcg);

// Returns the mesh of `mapped`. `digits` are those of its layouts: of the machine, and of
// time.
Mesh make_mesh(const plan::MappedGraph& mapped, const machine::Digits& digits);

// Numbering of devices: runs of the machine's digits, outermost first, and the order in which they
// form the mesh.
struct Numbering {
  std::vector<std::int64_t> sizes;
  std::vector<std::size_t> order;
};
Numbering make_numbering(const Mesh& mesh, const machine::Digits& digits);

}  // namespace tandem::frameworks
