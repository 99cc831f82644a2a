// Convolution of an image, in groups of channels. A device that computes a part of the rows or
// columns reads a window that reaches into the neighbouring shards. With a bias or an activation,
// the contracted channels cannot be partitioned, as in linear.
#include "ops/activation.h"
#include "ops/index_text.h"
#include "ops/registry.h"
#include "ops/trial.h"
#include "ops/windows.h"

namespace tandem::ops {

namespace {

bool check_channels(std::int64_t groups, const Shape& x, const Shape& weight) {
  if (groups < 1 || x[1] % groups != 0 || weight[0] % groups != 0) {
    return report_misfit([&] {
      return fmt::format(
          "groups {} must divide the {} channels of the image and the {} channels of the result",
          groups, x[1], weight[0]);
    });
  }
  if (weight[1] == x[1] / groups) return true;
  return report_misfit(
      [&] {
        return fmt::format("the weight takes {} channels, but a group of the image has {}",
                           weight[1], x[1] / groups);
      },
      "the shape of the weight is [output channels, input channels per group, rows, columns]");
}

std::string index_text(const Conv2d& a, std::span<const Shape> in) {
  check_inputs(in, 2, 3);
  for (std::size_t i = 0; i < 2; ++i) check_rank(in, i, 4, 4);
  if (!check_channels(a.groups, in[0], in[1])) return {};
  const auto [rows, columns] = make_windows({.image = in[0],
                                             .kernel = {in[1][2], in[1][3]},
                                             .stride = a.stride,
                                             .padding = a.padding,
                                             .dilation = a.dilation});
  if (!rows.fits() || !columns.fits()) return {};
  const std::string c = a.groups == 1 ? "c" : fmt::format("(g:{} c)", a.groups);
  const std::string k = a.groups == 1 ? "k" : "(g k)";
  return fmt::format("b {} {} {}, {} c r s{} -> b {} y:{} x:{}", c, rows.format_index("y", "r"),
                     columns.format_index("x", "s"), k, in.size() == 3 ? ", " + k : "", k,
                     rows.count, columns.count);
}

}  // namespace

const OpSpec kConv2d = define_op<Conv2d>({
    .name = "conv2d",
    .doc = "out[b,k,y,x] = act(sum_c,r,s image[b,c,stride*y+dilation*r-padding,...] * w[k,c,r,s] + "
           "bias[k]); the bias is optional",
    .index = "b (g c) 2y+r-1 2x+s-1, (g k) c r s -> b (g k) y x",
    .kernel = "conv2d",
    .onnx = {"Conv"},
    .index_text = index_text,
    .meaning =
        [](const Conv2d& a, std::span<const Shape> in) {
          auto out = term::sum("c r s", term::input(0) * term::input(1));
          if (in.size() == 3) out = out + term::input(2);
          return activate(a.act, out);
        },
});

}  // namespace tandem::ops
