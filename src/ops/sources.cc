// Inputs, weights and constants: tensors from outside, with the layout in their shape attribute. An
// input is fed every step. A weight is trained unless it is frozen. A constant has values given by
// its attributes.
#include "ops/sources.h"

#include <cmath>

#include "base/divisor.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

void check_degrees(const ParallelShape& shape) {
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape.sizes[d] % shape.degrees[d] == 0) continue;
    reject(fmt::format("dim {} is {}, which degree {} does not divide", d, shape.sizes[d],
                       shape.degrees[d]),
           make_nearest_degree_hint(shape.sizes[d], shape.degrees[d]));
  }
}

template <class Attributes>
OpDefinition<Attributes> define_source(const std::string& name, const std::string& doc) {
  return {
      .name = name,
      .doc = doc,
      .index = "-> (given by the attribute `shape`)",
      .role = Role::kSource,
      .type =
          [](const Attributes& a, std::span<const TensorType>) {
            check_degrees(a.shape);
            return TensorType{a.shape, a.dtype};
          },
  };
}

TensorType infer_constant_type(const Constant& a, std::span<const TensorType>) {
  check_degrees(a.shape);
  const auto rank = a.shape.rank();
  if (a.kind != "fill" && a.kind != "iota" && a.kind != "eye") {
    reject(fmt::format("unknown kind \"{}\" of constant", a.kind),
           "expected \"fill\", \"iota\" or \"eye\"");
  }
  if (a.kind == "iota") normalize_axis(a.axis, rank);
  if (a.kind == "eye" && rank < 2) {
    reject(fmt::format("kind \"eye\" requires at least 2 dimensions, but has {}", rank));
  }
  check_finite("value", a.value);
  if (is_integer(a.dtype) && a.value != std::floor(a.value)) {
    reject(fmt::format("value {} is not an integer, but the type is {}", a.value, name(a.dtype)));
  }
  return {a.shape, a.dtype};
}

}  // namespace

const OpSpec kConstant = define_op<Constant>({
    .name = "constant",
    .doc = "out = the same tensor in every step: `value` everywhere (kind=\"fill\"), `value` times "
           "the index along `axis` (\"iota\"), or `value` where the last two indices are equal, "
           "else 0 (\"eye\")",
    .index = "-> (given by the attribute `shape`)",
    .onnx = {"Constant", "ConstantOfShape", "EyeLike"},
    .role = Role::kSource,
    .type = infer_constant_type,
});
const OpSpec kInput =
    define_op(define_source<Input>("input", "a tensor that the data set provides in every step"));
const OpSpec kWeight =
    define_op(define_source<Weight>("weight", "a trained tensor, unless it is `frozen`"));

Op with_shape(const Op& source, const ParallelShape& shape) {
  const auto changed = [&](auto attributes) {
    if (attributes.shape == shape) return source;
    attributes.shape = shape;
    return make_op(source.spec(), std::move(attributes));
  };
  if (source.is(kConstant)) return changed(source.get<Constant>());
  return source.is(kWeight) ? changed(source.get<Weight>()) : changed(source.get<Input>());
}

double compute_constant_element(const Constant& a, std::int64_t index) {
  if (a.kind == "fill") return a.value;
  const Shape& sizes = a.shape.sizes;
  const auto rank = sizes.rank();
  if (a.kind == "eye") {
    const auto columns = sizes[rank - 1];
    return index / columns % sizes[rank - 2] == index % columns ? a.value : 0;
  }
  const auto axis = normalize_axis(a.axis, rank);
  std::int64_t behind = 1;
  for (std::size_t d = axis + 1; d < rank; ++d) behind *= sizes[d];
  return a.value * static_cast<double>(index / behind % sizes[axis]);
}

}  // namespace tandem::ops
