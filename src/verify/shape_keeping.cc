#include "verify/shape_keeping.h"

#include <vector>

#include "base/error.h"
#include "ops/signature.h"

namespace tandem::verify {

namespace {

enum class Shapes : std::uint8_t { kOfOperands, kOther, kIllegal };

Shapes try_attributes(const ops::OpSpec& spec, std::size_t operands,
                      const ops::AttributeList& attributes) {
  try {
    const std::vector<Shape> shapes(operands, Shape{2, 4});
    const auto& s = ops::get_signature(ops::parse_op(spec, attributes), shapes);
    const bool keeps = s.elementwise && term::to_shape(s.map.output) == shapes[0];
    return keeps ? Shapes::kOfOperands : Shapes::kOther;
  } catch (const UserError&) {
    return Shapes::kIllegal;
  }
}

}  // namespace

// Elementwise operators read each operand at the result's own index. Attributes are varied, since a
// pad of nothing does so, too.
ShapeKeeping find_shape_keeping(const ops::OpSpec& spec, std::size_t operands) {
  if (operands == 0) return ShapeKeeping::kUnknown;
  if (spec.role == ops::Role::kParallel) return ShapeKeeping::kAlways;
  if (spec.role == ops::Role::kJoin) return ShapeKeeping::kOfEqual;
  if (spec.role == ops::Role::kSource) return ShapeKeeping::kUnknown;
  if (try_attributes(spec, operands, {}) != Shapes::kOfOperands) return ShapeKeeping::kUnknown;
  for (const auto& [name, initial] : spec.attributes) {
    for (const auto* value : {"0", "1", "2", "0.5", "[1, 1]"}) {
      if (try_attributes(spec, operands, {{name, value}}) == Shapes::kOther)
        return ShapeKeeping::kUnknown;
    }
  }
  return operands == 1 ? ShapeKeeping::kAlways : ShapeKeeping::kOfEqual;
}

}  // namespace tandem::verify
