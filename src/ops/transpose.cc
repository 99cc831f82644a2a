// A permutation of the dimensions.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string index_text(const Transpose& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  const auto names = make_dim_names(in[0].rank());
  Sizes sorted = a.perm;
  std::ranges::sort(sorted);
  bool good = sorted.size() == names.size();
  for (std::size_t d = 0; good && d < sorted.size(); ++d) {
    good = sorted[d] == static_cast<std::int64_t>(d);
  }
  if (!good) {
    reject(fmt::format("perm {} must name every dimension of a tensor of rank {} exactly once",
                       tandem::attribute_text(a.perm), names.size()));
  }
  Names out;
  for (auto d : a.perm) out.push_back(names[static_cast<std::size_t>(d)]);
  return fmt::format("{} -> {}", join(names, " "), join(out, " "));
}

}  // namespace

const OpSpec kTranspose = define_op<Transpose>({
    .name = "transpose",
    .doc = "dimension d of the result is dimension perm[d] of the input",
    .index = "d0 d1 d2 -> d2 d0 d1",
    .kernel = "transpose",
    .onnx = {"Transpose"},
    .index_text = index_text,
    .meaning = [](const auto&, std::span<const Shape>) { return term::input(0); },
});

}  // namespace tandem::ops
