// A matrix product on a device whose units each compute one tile at a time: a small product leaves
// units idle in the last wave, a short depth leaves a tile waiting for its first operands.
#pragma once

#include "machine/machine.h"
#include "ops/task_grid.h"

namespace tandem::predict {

// `batch` products of a rows x depth and a depth x columns matrix.
struct Product {
  double rows = 1;
  double columns = 1;
  double depth = 1;
  double batch = 1;
  bool aligned = true;  // every row of its matrices begins at a multiple of kAlignment elements

  [[nodiscard]] Flops flops() const { return Flops{2 * batch * rows * columns * depth}; }
  // The gradients of the two operands are products, too.
  [[nodiscard]] Product gradient_of_lhs() const { return {rows, depth, columns, batch, aligned}; }
  [[nodiscard]] Product gradient_of_rhs() const { return {columns, depth, rows, batch, aligned}; }
};

// Of two bytes: tensor cores are fed in words of 16.
inline constexpr std::int64_t kAlignment = 8;

// What one task of the grid computes.
Product product_of(const ops::Signature& s, const ops::Contraction& c, const ops::TaskGrid& grid);

// In tiles of the size that is fastest, on a device with units. `peak` is of the whole device.
//
// Where units would have no tile the depth is divided among them, if adding up the parts takes less
// than that saves: 64 x 64 gradients of 1x1 convolutions are sums over a million pixels.
//
// 108 units, no setup or softening: 1728 x 4096 x k is 13.5 by 16 tiles of 128 x 256, that is 224
// of them in 3 waves; the same in 2.07 waves would be perfect.
Seconds product_time(const machine::Device& device, const Product& product, FlopsPerSecond peak);

}  // namespace tandem::predict
