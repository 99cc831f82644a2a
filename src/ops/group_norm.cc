// Normalisation of each sample over groups of channels and all dimensions after them, then scale
// and shift for each channel. Samples and groups may be partitioned, the elements of a group may
// not.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"

namespace tandem::ops {

namespace {

struct GroupNorm {
  std::int64_t groups = 1;
  double eps = 1e-5;
  bool operator==(const GroupNorm&) const = default;
  static constexpr auto fields = std::tuple{AttributeField{"groups", &GroupNorm::groups},
                                            AttributeField{"eps", &GroupNorm::eps}};
};

std::string index_text(const GroupNorm& a, std::span<const Shape> in) {
  check_inputs(in, 3, 3);
  check_rank(in, 0, 2, 5);
  check_eps(a.eps);
  if (a.groups < 1 || in[0][1] % a.groups != 0) {
    reject(fmt::format("groups {} must divide the {} channels", a.groups, in[0][1]));
  }
  const auto channels = fmt::format("(g:{} !c)", a.groups);
  std::string space;
  for (const auto& name : make_space_names(in[0].rank() - 2)) space += " !" + name;
  return fmt::format("b {0}{1}, {0}, {0} -> b (g c){1}", channels, space);
}

Term meaning(const GroupNorm& a, std::span<const Shape> in) {
  const auto over = join(make_space_names(in[0].rank() - 2), " ") + " c";
  const auto x = term::input(0);
  const auto centred = x - term::sum(over, x) / term::extent(over);
  const auto variance = term::sum(over, centred * centred) / term::extent(over);
  return centred / term::sqrt(variance + term::constant(a.eps)) * term::input(1) + term::input(2);
}

}  // namespace

const OpSpec kGroupNorm = define_op<GroupNorm>({
    .name = "group_norm",
    .doc = "out[b,c,...] = (x - mean x) / sqrt(variance x + eps) * scale[c] + shift[c], over the "
           "channels of each of `groups` groups and all dimensions after them",
    .index = "b (g !c) !h !w, (g c), (g c) -> b (g c) !h !w",
    .kernel = "group_norm",
    .onnx = {"GroupNormalization"},
    .index_text = index_text,
    .meaning = meaning,
});

}  // namespace tandem::ops
