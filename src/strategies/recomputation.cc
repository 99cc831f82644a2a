#include "strategies/recomputation.h"

#include <algorithm>

#include "base/check.h"
#include "ops/registry.h"
#include "strategies/stages.h"

namespace tandem::strategies {

namespace {

std::vector<bool> insides_of_layers(const Problem& problem) {
  std::vector<bool> out(problem.model.size());
  std::size_t from = 0;
  for (auto end : layer_ends(problem, cuts(problem))) {
    for (std::size_t n = from; n < end; ++n) out[n] = computes(problem, n);
    from = end + 1;
  }
  return out;
}

bool is_product(const ops::Op& op) {
  return op.is(ops::kLinear) || op.is(ops::kContract) || op.is(ops::kMatMul) ||
         op.is(ops::kBatchMatMul);
}

// Saves every other matmul of a layer, as TorchTitan's operator checkpointing does.
std::vector<bool> all_but_matmuls(const Problem& problem) {
  auto out = insides_of_layers(problem);
  std::string_view layer;
  std::size_t products = 0;
  for (std::size_t n = 0; n < out.size(); ++n) {
    const auto& node = problem.model.node(graph::NodeId(n));
    if (const auto now = layer_number(node.name); now != layer) {
      layer = now;
      products = 0;
    }
    const bool is_kept =
        node.op.is(ops::kAttention) || (is_product(node.op) && ++products % 2 == 1);
    if (is_kept) out[n] = false;
  }
  return out;
}

std::vector<bool> squares_of_sequences(const Problem& problem) {
  std::vector<bool> out(problem.model.size());
  for (std::size_t n = 0; n < out.size(); ++n) {
    if (!computes(problem, n)) continue;
    const auto& node = problem.nodes[n];
    const auto along_sequence = [&](const term::Dim& dim) {
      return !dim.carriers.empty() && node.kinds[dim.carriers[0]] == FactorKind::kSequence;
    };
    out[n] = std::ranges::count_if(node.signature.map.output, along_sequence) >= 2;
  }
  return out;
}

}  // namespace

std::string_view canonical_recomputation(std::string_view what) {
  return what == "products" ? "save_matmuls" : what;
}

std::vector<bool> recomputed(std::string_view what, const Problem& problem) {
  what = canonical_recomputation(what);
  if (what == "full") return insides_of_layers(problem);
  if (what == "save_matmuls") return all_but_matmuls(problem);
  if (what == "selective") return squares_of_sequences(problem);
  CHECK(what == "none", std::string(what));
  return std::vector<bool>(problem.model.size());
}

}  // namespace tandem::strategies
