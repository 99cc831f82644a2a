// The windows of an image that convolution and pooling read. Along each of the two dimensions,
// window number y reads at stride * y + dilation * r - before for r in [0, kernel).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ops/attributes.h"
#include "tensor/shape.h"

namespace tandem::ops {

// The windows along one dimension of an image.
struct Windows {
  std::int64_t image = 0;  // size of the dimension
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;  // padding before the first element
  std::int64_t after = 0;   // padding after the last element
  std::int64_t count = 0;   // number of windows, which is the size of the result

  // Returns whether a window fits. It returns false only within a Trial; otherwise make_windows
  // throws.
  [[nodiscard]] bool fits() const { return count > 0; }
  // Returns the index text of an element, given the factors that count the windows and the elements
  // of a window: ("y", "r") -> "2y+r-1".
  [[nodiscard]] std::string format_index(std::string_view window, std::string_view element) const;
  // Returns whether the last window reaches beyond the padding, which happens only if the result's
  // size is rounded up.
  [[nodiscard]] bool overhangs() const;
};

// The window attributes that a user writes. `kernel`, `stride` and `dilation` are {rows, columns};
// `padding` is {rows, columns} or {top, left, bottom, right}.
struct WindowAttributes {
  Shape image;  // [batch, channels, rows, columns]
  Sizes kernel;
  Sizes stride;
  Sizes padding;
  Sizes dilation = {1, 1};
  bool ceil = false;
};

// Returns the windows along the rows and along the columns. If no window fits, throws UserError, or
// returns a `count` of 0 within a Trial (ops/trial.h).
std::array<Windows, 2> make_windows(const WindowAttributes& a);

}  // namespace tandem::ops
