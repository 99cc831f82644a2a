// The time of a matmul on a device whose units each compute one tile at a time. A small matmul
// leaves units idle in the last wave. A short depth exposes the time to load a tile's first
// operands.
#pragma once

#include "machine/machine.h"
#include "ops/task_grid.h"

namespace tandem::predict {

// `batch` matmuls of a rows x depth and a depth x columns matrix.
struct MatmulShape {
  double rows = 1;
  double columns = 1;
  double depth = 1;
  double batch = 1;
  bool aligned = true;  // every matrix row begins at a multiple of kAlignment elements

  [[nodiscard]] Flops flops() const { return Flops{2 * batch * rows * columns * depth}; }
  // Return the matmuls that compute the gradients of the two operands.
  [[nodiscard]] MatmulShape lhs_gradient() const { return {rows, depth, columns, batch, aligned}; }
  [[nodiscard]] MatmulShape rhs_gradient() const { return {columns, depth, rows, batch, aligned}; }
};

// Alignment in elements of two bytes: tensor cores read words of 16 bytes.
inline constexpr std::int64_t kAlignment = 8;

// Returns the matmul that one task of the grid computes.
MatmulShape make_matmul(const ops::Signature& s, const ops::Contraction& c,
                        const ops::TaskGrid& grid);

// Returns the time with the fastest tile size, on a device with units. `peak` is of the whole
// device.
//
// If some units would have no tile, the depth is split among them (split-K), provided that summing
// the parts takes less time than this saves. Example: the 64 x 64 gradients of 1x1 convolutions are
// sums over a million pixels.
//
// Example with 108 units, no setup and no softening: 1728 x 4096 x k has 13.5 x 16 tiles of 128 x
// 256. Rounded up, these are 224 tiles in 3 waves. Perfect balance would take 2.07 waves.
Seconds matmul_time(const machine::Device& device, const MatmulShape& product, FlopsPerSecond peak);

}  // namespace tandem::predict
