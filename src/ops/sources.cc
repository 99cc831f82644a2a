// Inputs and weights: tensors that come from outside, already laid out as their shape attribute
// says. A weight is trained; an input is fed.
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

OpDefinition<Source> source(std::string name, std::string doc) {
  return {
      .name = std::move(name),
      .doc = std::move(doc),
      .index = "-> (given by the attribute `shape`)",
      .role = Role::kSource,
      .type =
          [](const Source& a, std::span<const TensorType>) {
            return TensorType{a.shape, a.dtype};
          },
  };
}

}  // namespace

const OpSpec kInput = define_op(source("input", "a tensor that is fed every step"));
const OpSpec kWeight = define_op(source("weight", "a tensor that is trained"));

}  // namespace tandem::ops
