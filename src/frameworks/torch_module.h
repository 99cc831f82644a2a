// A plan as a Python module that applies DTensor and FSDP to a user's nn.Module: the device mesh,
// the stored and used layout of each parameter, the layouts of layers' inputs and outputs. The code
// that applies it is templates/parallelize.py; this code generates its tables.
#pragma once

#include <string>
#include <vector>

#include "frameworks/mesh.h"

namespace tandem::frameworks {

// For each planned dimension of the mesh: "Shard(0)".
using Placements = std::vector<std::string>;

struct TorchWeight {
  std::string name;
  Shape shape;  // shape of the parameter in PyTorch's layers
  Placements stored, used;
};

struct TorchLayer {
  std::string name;
  std::string weight;       // weight of the layer's module; empty if another layer uses it first
  Placements reads, gives;  // layout of its input, and of its output for the first reader
};

struct TorchModule {
  Mesh mesh;
  Numbering numbering;
  std::vector<TorchWeight> weights;
  std::vector<TorchLayer> layers;       // empty if the plan has only data parallelism
  bool regather = false;                // weights are regathered for the backward pass
  std::vector<std::string> recomputed;  // operators that are recomputed
  std::vector<std::string> whole;       // weights that FSDP shards and the plan does not
};

// Returns the module of `plan`. Throws UserError("torch", ...) that names the tensor or operator
// that PyTorch cannot express.
TorchModule make_torch_module(const plan::Plan& plan, const machine::Machine& machine);

// Returns the Python source of `module`.
std::string to_python(const TorchModule& module, const plan::Plan& plan);

}  // namespace tandem::frameworks
