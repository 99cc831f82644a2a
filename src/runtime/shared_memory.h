// Collectives of processes on one computer through memory that all of them see: two to six times
// as fast as messages. They go on by themselves only when `advance` is called, so that a process
// may compute meanwhile.
//
// Tensors pass through in chunks. Each process has a few slots; for chunk number c, counted through
// all exchanges, a process in turn
//   gives   copies its part of the chunk into its slot c % slots, once all have taken chunk c -
//   slots sums    its share of the elements over all processes' slots, into its own, once all have
//   given takes   the sums of all shares, once all have summed.
// What it has done it says by a counter of its own for each of the three.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "runtime/chunk_path.h"
#include "runtime/tensor.h"

namespace tandem::runtime {

// A contiguous tensor of which every process gives or gets a block. A block's elements lie in runs.
struct Blocks {
  at::Tensor of;
  std::int64_t run = 0;   // elements that lie next to each other
  std::int64_t step = 0;  // from a run to the block's next one
  std::int64_t next = 0;  // from a block to the next process's

  // All of it is everyone's.
  static Blocks whole(const at::Tensor& t);
  // Cut along a dimension, in order of the processes.
  static Blocks along(const at::Tensor& t, std::size_t dim, std::int64_t processes);
};

class SharedMemory {
 public:
  // Null where the processes of `comm` do not share a computer, or it has no memory to share. All
  // of them call it.
  static std::unique_ptr<SharedMemory> over(MPI_Comm comm);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // All processes start the same exchanges in the same order. Tensors are contiguous, and stay as
  // they are until the exchange is done. Each returns its number.
  //
  // `to` becomes the sum of all processes' `from`, which may be the same tensor. Where `to` is
  // undefined, here and in `start_gather`, a process only helps.
  std::int64_t start_sum(const at::Tensor& from, const at::Tensor& to);
  // `to` becomes the sum of the blocks that are this process's.
  std::int64_t start_sum_of_block(Blocks from, const at::Tensor& to);
  // Block r of `to` becomes the `from` of process r.
  std::int64_t start_gather(const at::Tensor& from, Blocks to);
  // Block r of `to` becomes the block of process r that is for this one.
  std::int64_t start_swap(Blocks from, Blocks to);
  // `to` becomes what `from` is in the process `root`, where alone it need be defined; in the
  // second the own block of it.
  std::int64_t start_broadcast(const at::Tensor& from, const at::Tensor& to, std::int64_t root);
  std::int64_t start_scatter(Blocks from, const at::Tensor& to, std::int64_t root);

  // Goes as far as it can without waiting. True if anything was done.
  bool advance();
  [[nodiscard]] bool is_done(std::int64_t exchange) const { return exchange < first_open_; }
  // Gives up the core until another process has done something, or for a moment. (One that only
  // yields it stays runnable: programs of low priority then get whole slices of its time.)
  void sleep();

 private:
  struct Counters {
    alignas(64) std::atomic<std::int64_t> given;
    alignas(64) std::atomic<std::int64_t> summed;
    alignas(64) std::atomic<std::int64_t> taken;
    alignas(64) std::atomic<std::uint32_t> asleep;
    std::atomic<std::uint32_t> bell;  // rung for who is asleep
  };
  enum class Kind : std::uint8_t { kSum, kSumOfBlock, kGather, kSwap, kBroadcast, kScatter };
  static constexpr auto kKinds = static_cast<std::size_t>(Kind::kScatter) + 1;
  static constexpr std::int64_t kSlots = 16;
  struct Exchange {
    Kind kind;
    Blocks from, to;
    std::int64_t root = -1;
    std::int64_t elements = 0;   // that are cut into chunks
    std::int64_t per_chunk = 0;  // of them
    std::int64_t first = 0;      // chunk
    std::int64_t end = 0;
  };
  struct Part {
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };

  SharedMemory() = default;
  std::int64_t start(Exchange exchange);
  static bool gives_blocks(Kind kind);
  [[nodiscard]] const Exchange& exchange_of(std::int64_t chunk) const;
  static Part part_of(const Exchange& e, std::int64_t chunk);
  // Of a chunk so long the elements that a process sums.
  [[nodiscard]] Part share(std::int64_t length, std::int64_t rank) const;
  [[nodiscard]] char* slot(std::int64_t rank, std::int64_t chunk) const;
  [[nodiscard]] bool all_have(std::atomic<std::int64_t> Counters::*counter,
                              std::int64_t chunk) const;
  [[nodiscard]] Counters& counters(std::int64_t rank) const {
    return *reinterpret_cast<Counters*>(memory_[static_cast<std::size_t>(rank)]);
  }
  void wake_others() const;
  // Of the slots' bytes as many as a process has of a chunk.
  [[nodiscard]] std::int64_t bytes_of(const Exchange& e, std::int64_t chunk) const;
  [[nodiscard]] Path path_of(const Exchange& e, std::int64_t chunk) const;
  using Step = void (SharedMemory::*)(const Exchange& e, std::int64_t chunk) const;
  // Does it, and measures it where that says something.
  void run(Step step, std::int64_t chunk);
  void give(const Exchange& e, std::int64_t chunk) const;
  void sum(const Exchange& e, std::int64_t chunk) const;
  void take(const Exchange& e, std::int64_t chunk) const;

  MPI_Win window_ = MPI_WIN_NULL;
  std::int64_t rank_ = 0;
  std::vector<char*> memory_;  // of each process
  std::deque<Exchange> open_;
  std::int64_t first_open_ = 0;  // its number
  std::int64_t chunks_ = 0;      // of all exchanges so far
  std::int64_t given_ = 0, summed_ = 0, taken_ = 0;
  std::array<double, kSlots> seconds_ = {};  // spent so far on the chunk of a slot
  std::array<ChunkPath, kKinds> paths_;      // by kind: their steps differ
};

}  // namespace tandem::runtime
