// Broadcast along dimensions of size 1 and along new leading dimensions.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

std::string index_text(const Reshape& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  const auto& from = in[0];
  if (a.shape.size() > Shape::kMaxRank || a.shape.size() < from.rank()) {
    reject(fmt::format("shape {} cannot have {} dimensions: it must have {} to {}",
                       tandem::attribute_text(a.shape), a.shape.size(), from.rank(),
                       Shape::kMaxRank));
  }
  const auto fresh = a.shape.size() - from.rank();
  const auto names = make_dim_names(a.shape.size());
  Names read;
  Names made;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    const bool is_new = d < fresh;
    const auto had = is_new ? 1 : from[d - fresh];
    const auto wanted = a.shape[d] == -1 && !is_new ? had : a.shape[d];
    if (wanted < 1 || wanted > kLargestSize || (had != 1 && had != wanted)) {
      reject(fmt::format("shape {} does not fit {}: dim {} is {}, which cannot become {}",
                         tandem::attribute_text(a.shape), to_text(from), d, had, wanted));
    }
    const bool is_unchanged = !is_new && had == wanted;
    if (!is_new) read.push_back(is_unchanged ? names[d] : "0");
    made.push_back(is_unchanged ? names[d] : fmt::format("{}:{}", names[d], wanted));
  }
  return fmt::format("{} -> {}", join(read, " "), join(made, " "));
}

}  // namespace

const OpSpec kExpand = define_op<Reshape>({
    .name = "expand",
    .doc = "broadcasts dimensions of size 1 and new leading dimensions to `shape`; -1 keeps a size",
    .index = "0 d1 -> d0:8 d1",
    .kernel = "expand",
    .onnx = {"Expand"},
    .index_text = index_text,
    .meaning = [](const auto&, std::span<const Shape>) { return term::input(0); },
});

}  // namespace tandem::ops
