// Collectives between processes on one computer through shared memory, two to six times as fast as
// messages. They progress only while `advance` runs, so that a process can compute in between.
//
// Tensors pass through in chunks, which are numbered through all exchanges. Each process has kSlots
// slots. For chunk c it does three things, one after another, and counts each with a counter of its
// own:
//   - give: copies its part of the chunk into its slot c % kSlots, once all processes have taken
//     chunk c - kSlots;
//   - sum: sums its share of the elements over the slots of all processes into its own slot, once
//     all have given chunk c;
//   - take: copies the sums of all shares into its tensor, once all have summed chunk c.
// Example: two processes sum [1 2 3 4] and [5 6 7 8]. Process 0 sums the first half, [6 8], and
// process 1 the second, [10 12]. Both take [6 8 10 12].
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

// A contiguous tensor of which every process gives or gets one block. A block consists of runs of
// adjacent elements.
struct Blocks {
  at::Tensor of;
  std::int64_t run = 0;   // Elements in one run
  std::int64_t step = 0;  // Distance from one run of a block to the next
  std::int64_t next = 0;  // Distance from one process's block to the next's

  // Returns `t` as the block of every process.
  static Blocks whole(const at::Tensor& t);
  // Returns `t` split along `dim` into blocks in order of the processes. Example: [4, 2] along
  // dimension 1 for 2 processes -> run 1, step 2, next 1.
  static Blocks split_along(const at::Tensor& t, std::size_t dim, std::int64_t processes);
};

// The shared memory of one group of processes.
class SharedMemory {
 public:
  // Returns the shared memory of the processes of `comm`, all of which call it. Returns null if
  // they are not several processes on one computer, or the system has no memory to share.
  static std::unique_ptr<SharedMemory> create(MPI_Comm comm);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // The start_ functions return the number of the exchange. All processes start the same exchanges
  // in the same order. Tensors are contiguous and must not change until the exchange is done.
  //
  // start_sum stores the sum of all processes' `from` in `to`, which may be the same tensor. In
  // start_sum and start_gather, a process with an undefined `to` contributes but gets no result.
  std::int64_t start_sum(const at::Tensor& from, const at::Tensor& to);
  // Stores the sum of this process's blocks in `to`.
  std::int64_t start_sum_of_block(Blocks from, const at::Tensor& to);
  // Stores the `from` of process r in block r of `to`.
  std::int64_t start_gather(const at::Tensor& from, Blocks to);
  // Stores the block of process r that is meant for this process in block r of `to`.
  std::int64_t start_swap(Blocks from, Blocks to);
  // Stores the `from` of process `root` in `to` (start_broadcast), or this process's block of
  // it (start_scatter). `from` need be defined on the root only.
  std::int64_t start_broadcast(const at::Tensor& from, const at::Tensor& to, std::int64_t root);
  std::int64_t start_scatter(Blocks from, const at::Tensor& to, std::int64_t root);

  // Advances all exchanges as far as possible without waiting. Returns whether anything was done.
  bool advance();
  [[nodiscard]] bool is_done(std::int64_t exchange) const { return exchange < first_open_; }
  // Sleeps until another process has done something, at most for a moment. (A process that only
  // yields stays runnable, and programs of low priority then take whole slices of its time.)
  void sleep();

 private:
  struct Counters {
    alignas(64) std::atomic<std::int64_t> given;
    alignas(64) std::atomic<std::int64_t> summed;
    alignas(64) std::atomic<std::int64_t> taken;
    alignas(64) std::atomic<std::uint32_t> asleep;
    std::atomic<std::uint32_t> bell;  // Futex that wakes the process
  };
  enum class ExchangeKind : std::uint8_t {
    kSum,
    kSumOfBlock,
    kGather,
    kSwap,
    kBroadcast,
    kScatter
  };
  static constexpr auto kKinds = static_cast<std::size_t>(ExchangeKind::kScatter) + 1;
  static constexpr std::int64_t kSlots = 16;
  struct Exchange {
    ExchangeKind kind;
    Blocks from, to;
    std::int64_t root = -1;
    std::int64_t elements = 0;   // Number of elements, before the cut into chunks
    std::int64_t per_chunk = 0;  // Number of elements in a chunk
    std::int64_t first = 0;      // Number of its first chunk
    std::int64_t end = 0;
  };
  struct ChunkPart {
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };

  SharedMemory() = default;
  std::int64_t start(Exchange exchange);
  static bool gives_blocks(ExchangeKind kind);
  [[nodiscard]] const Exchange& find_exchange(std::int64_t chunk) const;
  static ChunkPart get_chunk_part(const Exchange& e, std::int64_t chunk);
  // Returns the part of a chunk of `length` elements that process `rank` sums.
  [[nodiscard]] ChunkPart compute_share(std::int64_t length, std::int64_t rank) const;
  [[nodiscard]] char* get_slot(std::int64_t rank, std::int64_t chunk) const;
  [[nodiscard]] bool all_have(std::atomic<std::int64_t> Counters::*counter,
                              std::int64_t chunk) const;
  [[nodiscard]] Counters& counters(std::int64_t rank) const {
    return *reinterpret_cast<Counters*>(memory_[static_cast<std::size_t>(rank)]);
  }
  void wake_others() const;
  // Returns how many bytes of its slot one process fills with `chunk`.
  [[nodiscard]] std::int64_t count_chunk_bytes(const Exchange& e, std::int64_t chunk) const;
  [[nodiscard]] Path choose_path(const Exchange& e, std::int64_t chunk) const;
  using Step = void (SharedMemory::*)(const Exchange& e, std::int64_t chunk) const;
  // Runs `step`, and records its time if the chunk is measured.
  void run_step(Step step, std::int64_t chunk);
  void give(const Exchange& e, std::int64_t chunk) const;
  void sum(const Exchange& e, std::int64_t chunk) const;
  void take(const Exchange& e, std::int64_t chunk) const;

  MPI_Win window_ = MPI_WIN_NULL;
  std::int64_t rank_ = 0;
  std::vector<char*> memory_;  // Start of each process's memory
  std::deque<Exchange> open_;
  std::int64_t first_open_ = 0;  // Number of the first exchange in open_
  std::int64_t chunks_ = 0;      // Number of chunks in all exchanges so far
  std::int64_t given_ = 0, summed_ = 0, taken_ = 0;
  std::array<double, kSlots> seconds_ = {};  // Time spent so far on each slot's chunk
  std::array<ChunkPath, kKinds> paths_;      // One per kind, because the work per chunk differs
};

}  // namespace tandem::runtime
