// A plan as a module of Python that spreads a user's nn.Module with DTensor and FSDP: which devices
// are a mesh, how each parameter is stored and used, how what layers read and make lies. The code
// that applies it is templates/parallelize.py; what is made here are its tables.
#pragma once

#include <string>
#include <vector>

#include "frameworks/mesh.h"

namespace tandem::frameworks {

// By dimension of the mesh that is planned: "Shard(0)".
using Placements = std::vector<std::string>;

struct TorchWeight {
  std::string name;
  Shape shape;  // of the parameter, as PyTorch's layers have it
  Placements stored, used;
};

struct TorchLayer {
  std::string name;
  std::string weight;       // whose module it is; empty: it is the module of another layer's
  Placements reads, gives;  // its input, and its output as its first reader wants it
};

struct TorchModule {
  Mesh mesh;
  Numbering numbering;
  std::vector<TorchWeight> weights;
  std::vector<TorchLayer> layers;       // empty where nothing is planned but data parallelism
  bool gather_again = false;            // weights are gathered for the backward pass, too
  std::vector<std::string> recomputed;  // operators
  std::vector<std::string> whole;       // weights that FSDP stores in parts, and the plan does not
};

// Throws UserError("torch", ...) that names the tensor or the operator which has no form there.
TorchModule torch_module(const plan::Plan& plan, const machine::Machine& machine);

// Its source.
std::string to_python(const TorchModule& module, const plan::Plan& plan);

}  // namespace tandem::frameworks
