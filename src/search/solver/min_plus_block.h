// Inner loops of a product of tables (min_plus.h). They process 16 columns at a time and keep the
// minima so far in registers. Each processor runs the widest instructions that it has, and all give
// bit-identical results.
//
// States whose lower bound is above an upper bound of all minima are skipped:
//   base {1, 4, 9}, least {2, 1, 3}, most {5, 2, 8}: no minimum is above min(6, 6, 17) = 6. State 2
//   costs at least 9 + 3, so only the entries of states 0 and 1 are added.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::search {

inline constexpr std::size_t kBlock = 16;     // columns that are minimized together
inline constexpr std::size_t kMostLanes = 8;  // of a vector; arrays by state are padded to it

// One table of the sum. Its entries of a block for state v are at cost + v * stride.
struct BlockAddend {
  const float* cost = nullptr;
  std::size_t stride = 0;
};

struct BlockTask {
  const float* base;   // cost of each state in all columns
  const float* least;  // by state: lower bound of its cost over columns
  const float* most;   // by state: upper bound
  std::size_t states;  // padded with states that cost more than kImpossible
  const BlockAddend* addends;
  std::size_t count;  // number of addends
};

struct BlockBounds {
  float least, most;
};

struct BlockKernels {
  // Writes the minimum of each column and the first state that has it.
  void (*minimize)(const BlockTask& task, float* cost, std::uint32_t* best);
  BlockBounds (*bounds)(const float* block);
  // Returns the minimum of `count` entries.
  float (*least)(const float* entries, std::size_t count);
};

// Return the fastest kernels for this processor, and kernels for any processor.
const BlockKernels& get_block_kernels();
const BlockKernels& get_portable_block_kernels();

}  // namespace tandem::search
