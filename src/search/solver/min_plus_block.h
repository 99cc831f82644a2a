// The inner loops of a product of tables (min_plus.h): 16 columns at a time, what they come to so
// far in registers. Each processor has the widest instructions that it knows; they give the same to
// the last digit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::search {

inline constexpr std::size_t kBlock = 16;     // columns that are minimised together
inline constexpr std::size_t kMostLanes = 8;  // of a vector: arrays by state are padded to it

// One of the tables that are added up: its entries of a block for state v at cost + v * stride.
struct BlockAddend {
  const float* cost = nullptr;
  std::size_t stride = 0;
};

struct BlockTask {
  const float* base;   // what a state costs in all columns
  const float* least;  // by state: no column adds less
  const float* most;   // nor more
  std::size_t states;  // padded; what was added costs more than kImpossible
  const BlockAddend* addends;
  std::size_t count;  // of these
};

struct BlockBounds {
  float least, most;
};

struct BlockKernels {
  // The least of each column and the first state that has it.
  void (*minimize)(const BlockTask& task, float* cost, std::uint32_t* best);
  BlockBounds (*bounds)(const float* block);
  // The least of so many entries.
  float (*least)(const float* entries, std::size_t count);
};

// The fastest here, and those of any processor.
const BlockKernels& block_kernels();
const BlockKernels& portable_block_kernels();

}  // namespace tandem::search
