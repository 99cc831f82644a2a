// Windows: what devices need of an operand whose index (2y+r-1) does not count through the
// dimension that they cut. The device of rank k needs a box that moves with its part of the factor
// y: its own shard and a halo from those beside it, or less than its shard where windows leave
// gaps.
//
//   a 3 x 3 convolution of 8 rows, padding 1, on 2 devices: shards [0,4) [4,8), windows [0,5) [3,8)
#pragma once

#include <cstdint>
#include <vector>

#include "machine/layout.h"
#include "ops/signature.h"

namespace tandem::machine {

// Along one dimension rank k needs [first + k * step, first + k * step + size), inside the tensor.
struct Window {
  std::int64_t first = 0;
  std::int64_t step = 0;
  std::int64_t size = 0;
  bool operator==(const Window&) const = default;
};
Range range_of(const Window& window, std::int64_t rank, std::int64_t extent);

// By dimension of an operand that lies like this; empty where every device needs just its shard.
// Factors that are only summed over count as whole, so a window may hold more than is read.
std::vector<Window> windows_of(const ops::Signature& s, std::size_t input, const Layout& layout,
                               const Digits& digits);

// The largest block that a device needs, clipped to the tensor.
Shape largest_block(const std::vector<Window>& windows, const Layout& layout, const Shape& sizes,
                    const Digits& digits);

// What devices get from each other to have their windows, or give back of the gradients.
struct Halo {
  DigitMask digits = 0;       // a group: the devices that cut the dimensions with windows
  std::int64_t most = 0;      // elements that one device gets, at the most
  std::int64_t together = 0;  // elements that all devices of a group get
  std::int64_t messages = 0;  // from how many others one device gets something, at the most
};
Halo halo_of(const std::vector<Window>& windows, const Layout& layout, const Shape& sizes,
             const Digits& digits);

}  // namespace tandem::machine
