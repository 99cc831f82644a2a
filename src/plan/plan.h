// A plan: what to run where. The model's graph made parallel, a layout for every tensor (the
// mapping), and what it was made from. JSON form: plan/json.h.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "machine/layout.h"

namespace tandem::plan {

enum class Optimizer : std::uint8_t { kSgd, kAdam };
inline std::string_view name(Optimizer o) { return o == Optimizer::kSgd ? "sgd" : "adam"; }
// Optimizer state per weight, in elements: Adam keeps two moments.
inline std::size_t states(Optimizer o) { return o == Optimizer::kSgd ? 0 : 2; }

// A parallel computation graph and where each of its tensors lies, by node.
struct MappedGraph {
  graph::Graph pcg;
  std::vector<machine::Layout> layouts;
};

// Throws UserError if a tensor's type is not what its layout means, or if the digits of an
// operator's operands do not agree.
void check_mapped(const MappedGraph& mapped, const machine::Digits& digits);

struct Plan {
  std::string model;     // "mlp:layers=4"
  std::string machine;   // "summit:8"
  std::string strategy;  // "search", "dp", ...
  std::int64_t batch = 0;
  Optimizer optimizer = Optimizer::kSgd;
  DType dtype = DType::kFp32;
  MappedGraph mapped;

  // Predicted by the simulator.
  Seconds iteration;
  Bytes memory;
};

}  // namespace tandem::plan
