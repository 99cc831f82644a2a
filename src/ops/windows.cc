#include "ops/windows.h"

#include "ops/index_text.h"
#include "ops/trial.h"

namespace tandem::ops {

namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 20U;

void check_numbers(std::string_view what, const Sizes& numbers, bool four, std::int64_t least) {
  if (numbers.size() != 2 && !(four && numbers.size() == 4)) {
    reject_ranks(
        fmt::format("{} has {} numbers, but must have 2{}", what, numbers.size(),
                    four ? " or 4" : ""),
        four ? "write [top, left, bottom, right] or [rows, columns]" : "write [rows, columns]");
  }
  for (auto n : numbers) check_attribute(what, n, least, kLargest);
}

// Returns the number of windows, rounded up with `ceil`. Returns 0 within a Trial if none fits.
std::int64_t count_windows(const Windows& w, bool ceil) {
  const auto room = w.image + w.before + w.after - w.dilation * (w.kernel - 1) - 1;
  if (room < 0) {
    if (Trial::is_on()) return 0;
    reject(fmt::format("a window of {} does not fit into {} with padding {} and {}",
                       w.dilation * (w.kernel - 1) + 1, w.image, w.before, w.after));
  }
  if (!ceil) return room / w.stride + 1;
  const auto count = (room + w.stride - 1) / w.stride + 1;
  // The last window must start inside the image or the padding before it.
  return (count - 1) * w.stride >= w.image + w.before ? count - 1 : count;
}

}  // namespace

std::string Windows::format_index(std::string_view window, std::string_view element) const {
  const auto times = [](std::int64_t n) { return n == 1 ? "" : fmt::format("{}", n); };
  return fmt::format("{}{}+{}{}{}", times(stride), window, times(dilation), element,
                     before == 0 ? "" : fmt::format("-{}", before));
}

bool Windows::overhangs() const {
  return (count - 1) * stride + dilation * (kernel - 1) >= image + before + after;
}

std::array<Windows, 2> make_windows(const WindowAttributes& a) {
  check_numbers("kernel", a.kernel, false, 1);
  check_numbers("stride", a.stride, false, 1);
  check_numbers("dilation", a.dilation, false, 1);
  check_numbers("padding", a.padding, true, 0);
  std::array<Windows, 2> out;
  for (std::size_t d = 0; d < out.size(); ++d) {
    out[d] = {.image = a.image[2 + d],
              .kernel = a.kernel[d],
              .stride = a.stride[d],
              .dilation = a.dilation[d],
              .before = a.padding[d],
              .after = a.padding[a.padding.size() - 2 + d]};
    out[d].count = count_windows(out[d], a.ceil);
  }
  return out;
}

}  // namespace tandem::ops
