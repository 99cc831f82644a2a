// A plan's devices as a mesh of PyTorch: digits that do the same to every tensor are one of its
// dimensions. Two dimensions are apart: those along which every operator just takes its part of
// the batch, which PyTorch calls data parallelism and hands to FSDP. Along the others tensors are
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
  // Of data parallelism: there is a copy of each weight over `replicate`, and parts of it over
  // `shard`. Both are there, of size 1 if need be, where there is data parallelism.
  MeshDim replicate{.name = "replicate"};
  MeshDim shard{.name = "shard"};
  std::vector<MeshDim> planned;

  [[nodiscard]] bool has_data() const { return (replicate.digits | shard.digits) != 0; }
  // In order.
  [[nodiscard]] std::vector<MeshDim> dims() const;
};

// The tensors that operators make or read. Between these, inside of chains of parallelization
// operators, layouts are nobody's.
std::vector<graph::NodeId> tensors_of(const graph::Graph& pcg);

// `digits` are those of the layouts: of the machine, and of time.
Mesh mesh_of(const plan::MappedGraph& mapped, const machine::Digits& digits);

// How devices are numbered: runs of the machine's digits, outermost first, and in which order they
// make the mesh.
struct Numbering {
  std::vector<std::int64_t> sizes;
  std::vector<std::size_t> order;
};
Numbering numbering_of(const Mesh& mesh, const machine::Digits& digits);

}  // namespace tandem::frameworks
