#include "predict/matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tandem::predict {

namespace {

// Tile size of a matmul kernel. A smaller tile reads more bytes per operation and reaches less of a
// unit's peak.
struct Tile {
  double rows, columns;
  double rate;
};
constexpr Tile kTiles[] = {{256, 128, 1},  {128, 256, 1},  {128, 128, 0.95},
                           {128, 64, 0.8}, {64, 128, 0.8}, {64, 64, 0.62}};

// Bytes per element of a partial sum: written in fp32 and read again.
constexpr double kBytesOfPart = 8;
// Minimum depth of a part. With many steps per tile, its start and end take little time.
constexpr double kDepthOfPart = 1024;

}  // namespace

MatmulShape make_matmul(const ops::Signature& s, const ops::Contraction& c,
                        const ops::TaskGrid& grid) {
  const auto size = [&](term::FactorMask factors) {
    double n = 1;
    for (; factors != 0; factors &= factors - 1) {
      const auto f = static_cast<std::size_t>(std::countr_zero(factors));
      n *= static_cast<double>(s.map.factors[f].size) / static_cast<double>(grid.degrees[f]);
    }
    return n;
  };
  const auto columns = size(c.columns);
  const auto depth = size(c.depth);
  const auto is_even = [](double n) { return std::fmod(n, kAlignment) == 0; };
  return {size(c.rows), columns, depth, size(c.batch), is_even(columns) && is_even(depth)};
}

Seconds matmul_time(const machine::Device& device, const MatmulShape& product,
                    FlopsPerSecond peak) {
  const double unit_peak = peak.value * device.compute_utilization / device.units *
                           (product.aligned ? 1 : device.unaligned);
  const double add_part = product.batch * product.rows * product.columns * kBytesOfPart /
                          (device.bandwidth.value * device.memory_utilization);
  double best = 0;
  for (const auto& tile : kTiles) {
    const double tiles = product.batch * std::ceil(product.rows / tile.rows) *
                         std::ceil(product.columns / tile.columns);
    const double most_parts = std::min(device.units / tiles, product.depth / kDepthOfPart);
    for (double parts = 1; parts == 1 || parts <= most_parts; parts *= 2) {
      const double shared = tiles * parts / device.units;
      const double waves = (1 - device.wave_softening) * std::ceil(shared) +
                           device.wave_softening * std::max(1.0, shared);
      const double depth = product.depth / parts + device.matmul_setup;
      const double time = waves * 2 * tile.rows * tile.columns * depth / (unit_peak * tile.rate) +
                          (parts > 1 ? parts * add_part : 0);
      if (best == 0 || time < best) best = time;
    }
  }
  return Seconds{best};
}

}  // namespace tandem::predict
