// join combines tensors of one shape to the partial sums of one tensor. If they are on different
// devices, nothing moves: add(x, y) = reduce(join(x, y)). The communication is an all-reduce
// instead of a transfer of one tensor to the other's devices (Unity's concat along the partial
// dimension).
//
//
//   join()   [n]+p, [n]+p -> [n]+2p
//   backward: each input takes its own replica of the gradient, [n]*2p -> [n]*p
//
// join adds the minor digit of the partial sums, as the parallelization operators do. It is not one
// of them: they preserve the meaning of one tensor, and join adds several.
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

TensorType infer_join_type(const NoAttributes& /*none*/, std::span<const TensorType> in) {
  if (in.size() < 2) {
    throw UserError("graph", "", fmt::format("takes at least 2 inputs, but has {}", in.size()));
  }
  TensorType out = in[0];
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (is_integer(in[i].dtype)) {
      throw UserError("graph", "",
                      fmt::format("input {} is {}, but must be a real type", i, name(in[i].dtype)));
    }
    if (in[i].shape != out.shape || in[i].dtype != out.dtype) {
      throw UserError(
          "graph", "",
          fmt::format("input {} is {} {}, but input 0 is {} {}", i, to_text(in[i].shape),
                      name(in[i].dtype), to_text(out.shape), name(out.dtype)),
          "all joined tensors must have the same type");
    }
    out.density = std::max(out.density, in[i].density);
  }
  if (out.shape.monoid == Monoid::kMax) {
    throw UserError("graph", "", "partial maxima cannot be joined", "reduce them first");
  }
  out.shape.partial *= static_cast<std::int64_t>(in.size());
  return out;
}

}  // namespace

const OpSpec kJoin = define_op(OpDefinition<NoAttributes>{
    .name = "join",
    .doc = "out = one tensor whose partial sums are the inputs, each on devices of its own",
    .index = "..., ... -> ...",
    .role = Role::kJoin,
    .type = infer_join_type,
});

}  // namespace tandem::ops
