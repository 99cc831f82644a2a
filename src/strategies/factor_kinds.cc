#include "strategies/factor_kinds.h"

#include <algorithm>
#include <array>
#include <span>

#include "ops/registry.h"

namespace tandem::strategies {

namespace {

using Kind = std::optional<FactorKind>;

// The kinds of a tensor's dimensions.
struct Kinds {
  std::array<Kind, Shape::kMaxRank> of_dim{};
  std::size_t rank = 0;
};

// Returns the kinds of an input's dimensions. Real inputs are batch, sequence..., features, or
// images; tokens are batch, ..., sequence.
Kinds find_input_kinds(const TensorType& type) {
  const auto rank = type.shape.rank();
  const bool tokens = is_integer(type.dtype);
  Kinds out{.rank = rank};
  const auto dims = std::span(out.of_dim).first(rank);
  if (!tokens && rank == 4) {
    out.of_dim = {FactorKind::kData, FactorKind::kModel, FactorKind::kSpatial,
                  FactorKind::kSpatial};
    return out;
  }
  std::ranges::fill(dims, tokens ? FactorKind::kModel : FactorKind::kSequence);
  if (rank > 1) dims.back() = tokens ? FactorKind::kSequence : FactorKind::kModel;
  if (rank > 0) dims.front() = FactorKind::kData;
  return out;
}

// Returns the kinds of an operator's factors, from the kinds of its operands' dimensions. `tensors`
// is by node. Factors that only weights have are new features.
std::vector<FactorKind> find_factor_kinds(const ops::Signature& s,
                                          std::span<const graph::NodeId> operands,
                                          const std::vector<Kinds>& tensors) {
  std::vector<Kind> found(s.map.factors.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& dims = tensors[operands[i].index()];
    for (std::size_t d = 0; d < dims.rank; ++d) {
      const auto& carriers = s.map.inputs[i][d].carriers;
      if (carriers.empty()) continue;
      auto& kind = found[carriers[0]];
      if (dims.of_dim[d] && (!kind || *dims.of_dim[d] < *kind)) kind = dims.of_dim[d];
    }
  }
  std::size_t fresh = 0;
  ops::FactorId first = 0;
  for (const auto& dim : s.map.output) {
    for (auto f : dim.carriers) {
      if (found[f]) continue;
      if (fresh++ == 0) first = f;
    }
  }
  std::vector<FactorKind> kinds;
  kinds.reserve(found.size());
  for (ops::FactorId f = 0; f < found.size(); ++f) {
    kinds.push_back(
        found[f].value_or(fresh > 1 && f == first ? FactorKind::kHead : FactorKind::kModel));
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
             : is_input(node)          ? find_input_kinds(node.type)
                                       : Kinds{.rank = node.type.shape.rank()};
      out.push_back({kOfSources, {}});
      continue;
    }
    const auto& s = get_node_signature(model, id);
    auto kinds = find_factor_kinds(s, model.inputs(id), tensors);
    if (node.op.is(ops::kMoeDispatch)) kinds[s.map.output[0].carriers[0]] = FactorKind::kExpert;
    for (const auto& dim : s.map.output) {
      dims.of_dim[dims.rank++] = dim.carriers.empty() ? Kind() : kinds[dim.carriers[0]];
    }
    out.push_back({s, std::move(kinds)});
  }
  return out;
}

}  // namespace tandem::strategies
