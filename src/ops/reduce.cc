// Sums, means and maxima over some dimensions.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

// Returns for each dimension whether it is reduced. No axes means all dimensions.
std::vector<bool> find_reduced_dims(const Reduction& a, const Shape& shape) {
  std::vector<bool> out(shape.rank(), a.axes.empty());
  for (auto axis : a.axes) {
    const auto d = normalize_axis(axis, shape.rank());
    if (out[d]) reject(fmt::format("axes {} name dim {} twice", tandem::attribute_text(a.axes), d));
    out[d] = true;
  }
  return out;
}

std::string reduction_index(const Reduction& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  const auto reduced = find_reduced_dims(a, in[0]);
  const auto names = make_dim_names(in[0].rank());
  Names out;
  for (std::size_t d = 0; d < names.size(); ++d) {
    if (!reduced[d]) out.push_back(names[d]);
    if (reduced[d] && a.keep_dims) out.emplace_back("0");
  }
  return fmt::format("{} -> {}", join(names, " "), join(out, " "));
}

std::string list_reduced_factors(const Reduction& a, std::span<const Shape> in) {
  const auto reduced = find_reduced_dims(a, in[0]);
  Names out;
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    if (reduced[d]) out.push_back(fmt::format("d{}", d));
  }
  return join(out, " ");
}

OpSpec define_reduction(const std::string& name, const std::string& what, const std::string& onnx,
                        Term (*reduce)(const std::string& factors)) {
  return define_op<Reduction>({
      .name = name,
      .doc = fmt::format(
          "out = {} over `axes` (over all dimensions if empty); keep=true keeps them with size 1",
          what),
      .index = "d0 d1 d2 -> d0 d2",
      .kernel = name,
      .onnx = {onnx},
      .index_text = reduction_index,
      .meaning = [reduce](
                     const Reduction& a,
                     std::span<const Shape> in) { return reduce(list_reduced_factors(a, in)); },
  });
}

}  // namespace

const OpSpec kReduceMax =
    define_reduction("reduce_max", "maximum", "ReduceMax",
                     [](const std::string& f) { return term::pick_max(f, term::input(0)); });
const OpSpec kReduceMean = define_reduction(
    "reduce_mean", "mean", "ReduceMean",
    [](const std::string& f) { return term::sum(f, term::input(0)) / term::extent(f); });
const OpSpec kReduceSum =
    define_reduction("reduce_sum", "sum", "ReduceSum",
                     [](const std::string& f) { return term::sum(f, term::input(0)); });

}  // namespace tandem::ops
