// Concatenation along one axis. Each input is read at an index lowered by the sizes before it, and
// is zero outside. A device that computes a part of the axis reads windows of the inputs. `append`
// has the same meaning for two inputs, but the result reuses the first one's memory, so that only
// the second is moved.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/rank_error.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// Returns the factors of one tensor, with `axis_name` at the axis: "a0 c1 a2".
std::string format_factors(std::size_t axis, std::size_t rank, const std::string& axis_name) {
  std::vector<std::string> names;
  for (std::size_t d = 0; d < rank; ++d) {
    names.push_back(d == axis ? axis_name : fmt::format("a{}", d));
  }
  return join(names, " ");
}

std::size_t check_concat_axis(const Concat& a, std::span<const Shape> in) {
  if (in.empty()) throw UserError("graph", "", "concat requires at least one input");
  const auto rank = in[0].rank();
  if (a.axis < 0 || static_cast<std::size_t>(a.axis) >= rank) {
    throw RankError("graph", "",
                    fmt::format("axis {} is out of range for a tensor of rank {}", a.axis, rank));
  }
  return static_cast<std::size_t>(a.axis);
}

std::string index_text(const Concat& a, std::span<const Shape> in) {
  const auto axis = check_concat_axis(a, in);
  const auto rank = in[0].rank();
  std::vector<std::string> sides;
  std::int64_t before = 0;
  for (const auto& shape : in) {
    sides.push_back(format_factors(axis, rank, fmt::format("c-{}", before)));
    if (shape.rank() == rank) before += shape[axis];
  }
  return fmt::format("{} -> {}", join(sides, ", "),
                     format_factors(axis, rank, fmt::format("c:{}", before)));
}

Term meaning(const Concat&, std::span<const Shape> in) {
  Term out = term::input(0);
  for (std::size_t i = 1; i < in.size(); ++i) out = out + term::input(i);
  return out;
}

std::string append_index_text(const Concat& a, std::span<const Shape> in) {
  check_inputs(in, 2, 2);
  return index_text(a, in);
}

Bytes count_appended_bytes(const Concat&, std::span<const TensorType> in) {
  return 2 * in[1].shard_bytes();
}

}  // namespace

const OpSpec kAppend = define_op<Concat>({
    .name = "append",
    .doc = "out = the inputs concatenated along `axis`, in the memory of the first: only the "
           "second is copied",
    .index = "a c, a c-|c0| -> a c",
    .kernel = "concat",
    .index_text = append_index_text,
    .meaning = meaning,
    .bytes = count_appended_bytes,
});

const OpSpec kConcat = define_op<Concat>({
    .name = "concat",
    .doc = "out = the inputs concatenated along `axis`",
    .index = "a c, a c-|c0|, ... -> a c",
    .kernel = "concat",
    .onnx = {"Concat"},
    .index_text = index_text,
    .meaning = meaning,
});

}  // namespace tandem::ops
