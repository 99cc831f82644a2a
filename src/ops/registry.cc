#include "ops/registry.h"

#include <array>

namespace tandem::ops {

std::span<const OpSpec* const> all_ops() {
  static constexpr std::array<const OpSpec*, 17> kAll = {
      &kAdd,       &kCombine,   &kConcat,  &kContract,    &kEmbeddingBag, &kInput,
      &kLayerNorm, &kLinear,    &kMatMul,  &kMse,         &kPartition,    &kReduce,
      &kRelu,      &kReplicate, &kSoftmax, &kUnreplicate, &kWeight,
  };
  return kAll;
}

const OpSpec& find_op(std::string_view name) {
  std::vector<std::string> names;
  for (const auto* spec : all_ops()) {
    if (spec->name == name) return *spec;
    names.push_back(spec->name);
  }
  const auto near = nearest(name, names);
  throw UserError(
      "graph", "", fmt::format("there is no operator '{}'", name),
      near.empty() ? "`tandem ops` lists them" : fmt::format("did you mean '{}'?", near));
}

}  // namespace tandem::ops
