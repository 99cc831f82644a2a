// Concatenation along one axis: each input read at an index lowered by the sizes before it, zero
// outside. The axis stays whole on every device.
#include "ops/attributes.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// The factors of one tensor, with `axis_name` at the axis: "a0 c1 a2".
std::string dims(std::size_t axis, std::size_t rank, const std::string& axis_name) {
  std::vector<std::string> names;
  for (std::size_t d = 0; d < rank; ++d) {
    names.push_back(d == axis ? axis_name : fmt::format("a{}", d));
  }
  return join(names, " ");
}

std::size_t checked_axis(const Concat& a, std::span<const Shape> in) {
  if (in.empty()) throw UserError("graph", "", "concat takes at least one input");
  const auto rank = in[0].rank();
  if (a.axis < 0 || static_cast<std::size_t>(a.axis) >= rank) {
    throw UserError("graph", "",
                    fmt::format("axis {} is not in a tensor of rank {}", a.axis, rank));
  }
  return static_cast<std::size_t>(a.axis);
}

std::string part(std::size_t i) { return fmt::format("c{}", i); }

std::string index_text(const Concat& a, std::span<const Shape> in) {
  const auto axis = checked_axis(a, in);
  std::vector<std::string> sides;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < in.size(); ++i) {
    parts.push_back(part(i));
    sides.push_back(dims(axis, in[0].rank(), part(i)));
  }
  return join(sides, ", ") + " -> " + dims(axis, in[0].rank(), "c=" + join(parts, "+"));
}

Term meaning(const Concat& a, std::span<const Shape> in) {
  const auto axis = checked_axis(a, in);
  Term out;
  std::vector<std::string> before;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto read = term::input_at(i, dims(axis, in[0].rank(), "c"), axis, before);
    out = out ? out + read : read;
    before.push_back(part(i));
  }
  return out;
}

}  // namespace

const OpSpec kConcat = define_op<Concat>({
    .name = "concat",
    .doc = "the inputs one after another along `axis`",
    .index = "a c0, a c1, ... -> a c=c0+c1+...",
    .kernel = "concat",
    .onnx = {"Concat"},
    .index_text = index_text,
    .meaning = meaning,
});

}  // namespace tandem::ops
