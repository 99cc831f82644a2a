#include "base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tandem {
namespace {

TEST(Parallel, DoesEachRoundOnce) {
  for (const unsigned threads : {0U, 1U, 3U, 20U}) {
    std::vector<std::atomic<int>> done(10);
    parallel_for(done.size(), threads, [&](std::size_t i) { ++done[i]; });
    for (const auto& n : done) EXPECT_EQ(n, 1);
  }
  parallel_for(0, 2, [](std::size_t) { FAIL(); });
}

TEST(Parallel, ThrowsWhatIsThrown) {
  for (const unsigned threads : {1U, 4U}) {
    EXPECT_THROW(parallel_for(100, threads,
                              [](std::size_t i) {
                                if (i == 17) throw std::runtime_error("17");
                              }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace tandem
