#include "runtime/shared_memory.h"

#include <cstring>

#include "runtime/aten.h"
#include "runtime/chunk_path.h"
#include "runtime/worker_test_support.h"

namespace tandem::runtime {
namespace {

// --- Copies and paths ----------------------------------------------------------------------------

TEST(ChunkPath, CopiesEquallyOnBothPaths) {
  constexpr std::size_t kMost = 400;
  std::vector<char> from(kMost + 64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 31 + 7);
  for (std::size_t begin = 0; begin < 64; begin += 3) {
    for (std::size_t bytes = 0; bytes <= kMost; bytes += 1 + bytes / 8) {
      std::vector<char> to(kMost + 128, 'x');
      copy(Path::kMemory, to.data() + begin, from.data() + begin / 2, bytes);
      finish_writing(Path::kMemory);
      std::vector<char> expected(to.size(), 'x');
      std::memcpy(expected.data() + begin, from.data() + begin / 2, bytes);
      ASSERT_EQ(to, expected) << begin << " " << bytes;
    }
  }
}

constexpr std::int64_t kBytes = 256 << 10;

// Records chunks that cost this much by each path. Returns the first chunk that was not recorded.
std::int64_t spend(ChunkPath& path, std::int64_t chunk, int chunks, double caches, double memory) {
  for (const auto end = chunk + chunks; chunk < end; ++chunk) {
    if (!ChunkPath::is_measured(chunk, kBytes)) continue;
    path.record_time(chunk, kBytes,
                     path.choose_path(chunk, kBytes) == Path::kCaches ? caches : memory);
  }
  while (ChunkPath::is_measured(chunk, kBytes)) ++chunk;
  return chunk;
}

TEST(ChunkPath, ChoosesTheCheaperPath) {
  ChunkPath path;
  EXPECT_EQ(path.choose_path(1, kBytes), Path::kCaches);
  auto chunk = spend(path, 0, 200, 30e-6, 50e-6);  // Cores with a common cache
  EXPECT_EQ(path.choose_path(chunk, kBytes), Path::kCaches);
  chunk = spend(path, chunk, 200, 120e-6, 45e-6);  // Cores without one
  EXPECT_EQ(path.choose_path(chunk, kBytes), Path::kMemory);
  EXPECT_EQ(path.choose_path(chunk, 4096), Path::kCaches);
  chunk = spend(path, chunk, 200, 30e-6, 50e-6);
  EXPECT_EQ(path.choose_path(chunk, kBytes), Path::kCaches);
}

// Another program had the core for ten milliseconds.
TEST(ChunkPath, IgnoresAnInterruption) {
  ChunkPath path;
  auto chunk = spend(path, 0, 200, 30e-6, 50e-6);
  while (!ChunkPath::is_measured(chunk, kBytes) || path.choose_path(chunk, kBytes) != Path::kCaches)
    ++chunk;
  path.record_time(chunk, kBytes, 10e-3);
  EXPECT_EQ(path.choose_path(chunk + 1, kBytes), Path::kCaches);
}

// --- Several processes ---------------------------------------------------------------------------

TEST(SharedMemoryRanks, TwoExchange) { run_ranks(2, "SharedMemoryRanks.DISABLED_Exchanges"); }
TEST(SharedMemoryRanks, ThreeExchange) { run_ranks(3, "SharedMemoryRanks.DISABLED_Exchanges"); }

// Returns one process's elements of an exchange: integers, whose sums no type rounds.
at::Tensor elements(std::int64_t process, std::int64_t round, std::int64_t count,
                    at::ScalarType type) {
  return at::arange(count, at::kLong).mul(7).add(13 * process + round).remainder(5).to(type);
}

class Ranks {
 public:
  Ranks() {
    MPI_Init(nullptr, nullptr);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank_ = rank;
    size_ = size;
    memory_ = SharedMemory::create(MPI_COMM_WORLD);
  }
  ~Ranks() {
    memory_.reset();
    MPI_Finalize();
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Exchanges blocks of `count` elements. Tensors begin anywhere in a cache line.
  void exchange(std::int64_t count, std::int64_t round, at::ScalarType type) {
    const auto shift = [&](std::int64_t n) {
      return at::full({n + 16}, -1, type).slice(0, round % 16, round % 16 + n);
    };
    const auto of = [&](std::int64_t process) {
      return elements(process, round, count * size_, type);
    };
    auto from = shift(count * size_);
    from.copy_(of(rank_));
    auto sum = at::zeros_like(from);
    for (std::int64_t r = 0; r < size_; ++r) sum.add_(of(r));
    const auto block = [&](const at::Tensor& t, std::int64_t r) {
      return t.slice(0, r * count, (r + 1) * count);
    };

    auto to = shift(count * size_);
    finish(memory_->start_sum(from, to));
    EXPECT_TRUE(at::equal(to, sum)) << count << " " << round;
    auto own = shift(count);
    finish(memory_->start_sum_of_block(Blocks::split_along(from, 0, size_), own));
    EXPECT_TRUE(at::equal(own, block(sum, rank_))) << count << " " << round;
    finish(memory_->start_gather(block(from, 0), Blocks::split_along(to, 0, size_)));
    for (std::int64_t r = 0; r < size_; ++r) EXPECT_TRUE(at::equal(block(to, r), block(of(r), 0)));
    finish(memory_->start_swap(Blocks::split_along(from, 0, size_),
                               Blocks::split_along(to, 0, size_)));
    for (std::int64_t r = 0; r < size_; ++r)
      EXPECT_TRUE(at::equal(block(to, r), block(of(r), rank_)));
    finish(memory_->start_broadcast(from, to, size_ - 1));
    EXPECT_TRUE(at::equal(to, of(size_ - 1)));
  }

 private:
  void finish(std::int64_t exchange) {
    while (!memory_->is_done(exchange)) {
      if (!memory_->advance()) memory_->sleep();
    }
  }
  std::int64_t rank_ = 0, size_ = 0;
  std::unique_ptr<SharedMemory> memory_;
};

// Runs in every process of the two tests above. Chunks have all sizes, and are enough to measure
// each path and to reuse the slots.
TEST(SharedMemoryRanks, DISABLED_Exchanges) {
  const c10::InferenceMode no_autograd;
  Ranks ranks;
  std::int64_t round = 0;
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const std::int64_t count : {1, 1000, 30'001, 65'536, 400'003}) {
      for (int i = 0; i < 3; ++i) ranks.exchange(count, round++, type);
    }
  }
}

}  // namespace
}  // namespace tandem::runtime
