#include "strategies/recomputation.h"

#include <algorithm>

#include "ops/registry.h"
#include "strategies/stages.h"

namespace tandem::strategies {

namespace {

std::vector<bool> find_layer_insides(const Problem& problem) {
  std::vector<bool> out(problem.model.size());
  std::size_t from = 0;
  for (auto end : find_layer_ends(problem, find_cuts(problem))) {
    for (std::size_t n = from; n < end; ++n) out[n] = is_operator(problem, n);
    from = end + 1;
  }
  return out;
}

bool is_matmul(const ops::Op& op) {
  return op.is(ops::kLinear) || op.is(ops::kContract) || op.is(ops::kMatMul) ||
         op.is(ops::kBatchMatMul);
}

// Saves every other matmul of a layer, as TorchTitan's operator checkpointing does.
std::vector<bool> find_all_but_matmuls(const Problem& problem) {
  auto out = find_layer_insides(problem);
  std::string_view layer;
  std::size_t matmuls = 0;
  for (std::size_t n = 0; n < out.size(); ++n) {
    const auto& node = problem.model.node(graph::NodeId(n));
    if (const auto now = parse_layer_number(node.name); now != layer) {
      layer = now;
      matmuls = 0;
    }
    const bool is_saved = node.op.is(ops::kAttention) || (is_matmul(node.op) && ++matmuls % 2 == 1);
    if (is_saved) out[n] = false;
  }
  return out;
}

std::vector<bool> find_sequence_squares(const Problem& problem) {
  std::vector<bool> out(problem.model.size());
  for (std::size_t n = 0; n < out.size(); ++n) {
    if (!is_operator(problem, n)) continue;
    const auto& node = problem.nodes[n];
    const auto along_sequence = [&](const term::Dim& dim) {
      return !dim.carriers.empty() && node.kinds[dim.carriers[0]] == FactorKind::kSequence;
    };
    out[n] = std::ranges::count_if(node.signature.map.output, along_sequence) >= 2;
  }
  return out;
}

}  // namespace

std::vector<bool> find_recomputed(Recompute recompute, const Problem& problem) {
  switch (recompute) {
    case Recompute::kNone:
      break;
    case Recompute::kSelective:
      return find_sequence_squares(problem);
    case Recompute::kSaveMatmuls:
      return find_all_but_matmuls(problem);
    case Recompute::kFull:
      return find_layer_insides(problem);
  }
  return std::vector<bool>(problem.model.size());
}

}  // namespace tandem::strategies
