// This test is linked with small_blocks.cc, so all its allocations use those operators.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace {

struct Filled {
  std::unique_ptr<unsigned char[]> bytes;  // NOLINT: the size is known at run time only
  std::size_t size = 0;
  unsigned char value = 0;

  Filled(std::size_t n, unsigned char v) : bytes(new unsigned char[n]), size(n), value(v) {
    std::memset(bytes.get(), v, n);
  }
  [[nodiscard]] bool is_whole() const {
    for (std::size_t i = 0; i < size; ++i) {
      if (bytes[i] != value) return false;
    }
    return true;
  }
};

// Blocks of all sizes keep their contents while others are allocated and freed in random order.
TEST(SmallBlocks, DoNotOverlap) {
  std::vector<Filled> held;
  std::uint64_t random = 1;
  for (int round = 0; round < 200000; ++round) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto pick = random >> 33U;
    if (held.size() < 2000) {
      held.emplace_back(pick % 300, static_cast<unsigned char>(pick >> 20U));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back().bytes.get()) % 16, 0U);
    } else {
      std::swap(held[pick % held.size()], held.back());
      ASSERT_TRUE(held.back().is_whole());
      held.pop_back();
      if (pick % 4 == 0) held.erase(held.begin(), held.begin() + 1000);
    }
  }
}

// Each thread frees the blocks of the thread before, which has ended.
TEST(SmallBlocks, MoveBetweenThreads) {
  std::atomic<bool> whole = true;
  std::vector<Filled> passed;
  for (int round = 0; round < 50; ++round) {
    std::thread([&] {
      for (const auto& f : passed) {
        if (!f.is_whole()) whole = false;
      }
      passed.clear();
      for (std::size_t i = 0; i < 20000; ++i) {
        passed.emplace_back(i % 270,
                            static_cast<unsigned char>(i + static_cast<std::size_t>(round)));
      }
    }).join();
  }
  EXPECT_TRUE(whole);
}

TEST(SmallBlocks, ServeManyThreadsAtOnce) {
  std::atomic<int> broken = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Filled> own;
      for (std::size_t i = 0; i < 100000; ++i) {
        own.emplace_back(i % 270, static_cast<unsigned char>(t));
        if (own.size() < 5000) continue;
        for (const auto& f : own) broken += f.is_whole() ? 0 : 1;
        own.clear();
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(broken, 0);
}

}  // namespace
