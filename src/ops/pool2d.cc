// Pooling over an image's rows and columns. A device may compute a part of them and reads windows.
#include "ops/attributes.h"
#include "ops/index_text.h"
#include "ops/registry.h"
#include "ops/windows.h"

namespace tandem::ops {

namespace {

using term::constant;
using term::input;

std::array<Windows, 2> make_pool_windows(const Pool2d& a, const Shape& x) {
  const auto out = make_windows(
      {.image = x, .kernel = a.kernel, .stride = a.stride, .padding = a.padding, .ceil = a.ceil});
  for (const auto& w : out) {
    // With smaller padding, every window contains an element of the image.
    if (std::max(w.before, w.after) >= w.kernel) {
      reject_ranks(fmt::format("padding {} must be less than the kernel size {}",
                               std::max(w.before, w.after), w.kernel));
    }
  }
  return out;
}

std::string pool_index(const Pool2d& a, std::span<const Shape> in) {
  check_inputs(in, 1, 1);
  check_rank(in, 0, 4, 4);
  const auto [rows, columns] = make_pool_windows(a, in[0]);
  if (!rows.fits() || !columns.fits()) return {};
  return fmt::format("b c {} {} -> b c y:{} x:{} | r:{} s:{}", rows.format_index("y", "r"),
                     columns.format_index("x", "s"), rows.count, columns.count, rows.kernel,
                     columns.kernel);
}

OpSpec define_pool(const std::string& name, const std::string& doc, const std::string& onnx,
                   Term (*meaning)(const Pool2d&, std::span<const Shape>)) {
  return define_op<Pool2d>({
      .name = name,
      .doc = doc,
      .index = "b c 2y+r-1 2x+s-1 -> b c y x | r s",
      .kernel = name,
      .onnx = {onnx},
      .index_text = pool_index,
      .meaning = meaning,
  });
}

// Returns a term that is 1 if the element of the window is in the image or its padding, and 0
// beyond.
Term make_padding_mask(const Windows& w, const std::string& window, const std::string& element) {
  if (!w.overhangs()) return constant(1);
  const auto at = constant(static_cast<double>(w.stride)) * term::index_along(window) +
                  term::index_along(element);
  return term::less(at, constant(static_cast<double>(w.image + w.before + w.after)));
}

Term average(const Pool2d& a, std::span<const Shape> in) {
  const auto total = term::sum("r s", input(0));
  if (!a.count_padding) return total / term::sum("r s", term::inside(0));
  const auto [rows, columns] = make_pool_windows(a, in[0]);
  if (!rows.overhangs() && !columns.overhangs()) return total / term::extent("r s");
  return total /
         term::sum("r s", make_padding_mask(rows, "y", "r") * make_padding_mask(columns, "x", "s"));
}

}  // namespace

const OpSpec kAvgPool2d = define_pool(
    "avg_pool2d", "average of each window; padding counts as zeros unless count_padding=false",
    "AveragePool", average);

const OpSpec kMaxPool2d =
    define_pool("max_pool2d", "maximum of each window; padding does not count", "MaxPool",
                [](const Pool2d&, std::span<const Shape>) {
                  return term::pick_max("r s", input(0), term::inside(0));
                });

const OpSpec kGlobalAvgPool = define_op<NoAttributes>({
    .name = "global_avg_pool",
    .doc = "out[b,c] = mean_h,w x[b,c,h,w]",
    .index = "b c h w -> b c",
    .kernel = "global_avg_pool",
    .onnx = {"GlobalAveragePool"},
    .meaning =
        [](const auto&, std::span<const Shape>) {
          return term::sum("h w", input(0)) / term::extent("h w");
        },
});

}  // namespace tandem::ops
