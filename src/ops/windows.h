// The windows of an image that convolution and pooling read: along each of its two dimensions,
// window number y reads at stride * y + dilation * r - before for r in [0, kernel).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ops/attributes.h"
#include "tensor/shape.h"

namespace tandem::ops {

struct Windows {
  std::int64_t image = 0;  // size of the dimension that is read
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;
  std::int64_t count = 0;  // of windows: the size of the result

  // False in a trial alone.
  [[nodiscard]] bool fits() const { return count > 0; }
  // In index text, with the factors that count windows and a window's elements: "2y+r-1".
  [[nodiscard]] std::string read(std::string_view window, std::string_view element) const;
  // Does the last window reach beyond the padding? Only where the result's size is rounded up.
  [[nodiscard]] bool overhangs() const;
};

// What a user says about them: `kernel`, `stride` and `dilation` are rows, columns; `padding` is
// that, or top, left, bottom, right.
struct WindowAttributes {
  Shape image;  // [batch, channels, rows, columns]
  Sizes kernel;
  Sizes stride;
  Sizes padding;
  Sizes dilation = {1, 1};
  bool ceil = false;
};

// Of rows and of columns. Where no window fits: throws UserError, or is none in a trial
// (ops/trial.h).
std::array<Windows, 2> windows_of(const WindowAttributes& a);

}  // namespace tandem::ops
