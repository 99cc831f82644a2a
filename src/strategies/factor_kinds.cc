#include "strategies/factor_kinds.h"

#include <algorithm>

#include "ops/registry.h"

namespace tandem::strategies {

namespace {

using Kinds = std::vector<std::optional<FactorKind>>;

// Real inputs are batch, sequence..., features, or images; tokens are batch, ..., sequence.
Kinds kinds_of_input(const TensorType& type) {
  const auto rank = type.shape.rank();
  const bool tokens = is_integer(type.dtype);
  if (!tokens && rank == 4) {
    return {FactorKind::kData, FactorKind::kModel, FactorKind::kSpatial, FactorKind::kSpatial};
  }
  Kinds out(rank, tokens ? FactorKind::kModel : FactorKind::kSequence);
  if (rank > 1) out.back() = tokens ? FactorKind::kSequence : FactorKind::kModel;
  if (rank > 0) out.front() = FactorKind::kData;
  return out;
}

// The factors' kinds by those of the operands' dimensions; what only weights have is new.
std::vector<FactorKind> kinds_of_factors(const ops::Signature& s,
                                         const std::vector<Kinds>& operands) {
  Kinds found(s.map.factors.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t d = 0; d < operands[i].size(); ++d) {
      const auto& carriers = s.map.inputs[i][d].carriers;
      if (carriers.empty()) continue;
      auto& kind = found[carriers[0]];
      if (operands[i][d] && (!kind || *operands[i][d] < *kind)) kind = operands[i][d];
    }
  }
  const auto is_new = [&](ops::FactorId f) { return !found[f]; };
  std::vector<ops::FactorId> fresh;
  for (const auto& dim : s.map.output)
    std::ranges::copy_if(dim.carriers, std::back_inserter(fresh), is_new);
  std::optional<ops::FactorId> heads;
  if (fresh.size() > 1) heads = fresh[0];
  std::vector<FactorKind> kinds;
  for (ops::FactorId f = 0; f < found.size(); ++f) {
    kinds.push_back(found[f].value_or(heads == f ? FactorKind::kHead : FactorKind::kModel));
  }
  return kinds;
}

}  // namespace

std::string_view name(FactorKind kind) {
  switch (kind) {
    case FactorKind::kData:
      return "data";
    case FactorKind::kSpatial:
      return "spatial";
    case FactorKind::kSequence:
      return "sequence";
    case FactorKind::kHead:
      return "head";
    case FactorKind::kExpert:
      return "expert";
    case FactorKind::kModel:
      return "model";
  }
  CHECK(false);
}

std::optional<ops::FactorId> AnalyzedNode::batch() const {
  const auto at = std::ranges::find(kinds, FactorKind::kData);
  if (at == kinds.end()) return std::nullopt;
  return static_cast<ops::FactorId>(at - kinds.begin());
}

std::vector<AnalyzedNode> analyze(const graph::Graph& model) {
  static const ops::Signature kOfSources;
  std::vector<AnalyzedNode> out;
  out.reserve(model.size());
  std::vector<Kinds> tensors(model.size());
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    auto& dims = tensors[id.index()];
    if (node.op.role() != ops::Role::kCompute) {
      dims = !model.inputs(id).empty() ? tensors[model.inputs(id)[0].index()]
             : is_input(node)          ? kinds_of_input(node.type)
                                       : Kinds(node.type.shape.rank());
      out.push_back({kOfSources, {}});
      continue;
    }
    std::vector<Kinds> operands;
    for (auto i : model.inputs(id)) operands.push_back(tensors[i.index()]);
    const auto& s = signature_of(model, id);
    auto kinds = kinds_of_factors(s, operands);
    if (node.op.is(ops::kMoeDispatch)) kinds[s.map.output[0].carriers[0]] = FactorKind::kExpert;
    for (const auto& dim : s.map.output) {
      dims.push_back(dim.carriers.empty() ? std::nullopt : std::optional(kinds[dim.carriers[0]]));
    }
    out.push_back({s, std::move(kinds)});
  }
  return out;
}

}  // namespace tandem::strategies
