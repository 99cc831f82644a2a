// Windows: the part of an operand that a device needs if its index, such as (2y+r-1), does not
// simply count through the dimension that it cuts. The device of rank k needs a box that moves with
// its range of the factor y. The box is its own shard plus a halo from its neighbours, or less than
// its shard if windows leave gaps.
//
//   A 3 x 3 convolution of 8 rows with padding 1 on 2 devices:
//   shards [0,4) [4,8), windows [0,5) [3,8)
#pragma once

#include <cstdint>
#include <vector>

#include "machine/layout.h"
#include "ops/signature.h"

namespace tandem::machine {

// One dimension's window: rank k needs [first + k * step, first + k * step + size), clipped to the
// tensor.
struct Window {
  std::int64_t first = 0;
  std::int64_t step = 0;
  std::int64_t size = 0;
  bool operator==(const Window&) const = default;
};
IndexRange compute_range(const Window& window, std::int64_t rank, std::int64_t extent);

// Returns one window per dimension of an operand with this layout, or an empty list if every device
// needs just its shard. Summed factors count as whole, so a window may exceed what is read.
std::vector<Window> compute_windows(const ops::Signature& s, std::size_t input,
                                    const Layout& layout, const Digits& digits);

// Returns the largest block that a device needs, clipped to the tensor.
Shape compute_largest_block(const std::vector<Window>& windows, const Layout& layout,
                            const Shape& sizes, const Digits& digits);

// Halo exchange: the elements that devices get to complete their windows, or return of the
// gradients.
struct Halo {
  DigitMask digits = 0;       // digits of a group: those that cut dimensions with windows
  std::int64_t most = 0;      // largest number of elements that one device gets
  std::int64_t together = 0;  // number of elements that all devices of a group get
  std::int64_t messages = 0;  // largest number of devices that one device gets elements from
};
Halo compute_halo(const std::vector<Window>& windows, const Layout& layout, const Shape& sizes,
                  const Digits& digits);

}  // namespace tandem::machine
