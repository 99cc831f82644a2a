#include "base/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace tandem {
namespace {

TEST(Parallel, RunsEachIterationOnce) {
  for (const unsigned threads : {0U, 1U, 3U, 20U}) {
    std::vector<std::atomic<int>> done(10);
    parallel_for(done.size(), threads, [&](std::size_t i) { ++done[i]; });
    for (const auto& n : done) EXPECT_EQ(n, 1);
  }
  parallel_for(0, 2, [](std::size_t) { FAIL(); });
}

TEST(Parallel, RethrowsAnException) {
  for (const unsigned threads : {1U, 4U}) {
    EXPECT_THROW(parallel_for(100, threads,
                              [](std::size_t i) {
                                if (i == 17) throw std::runtime_error("17");
                              }),
                 std::runtime_error);
  }
}

#ifndef TANDEM_SANITIZE  // sanitizers need memory for each thread
// If the system provides no more threads, the existing ones do all the work.
TEST(Parallel, RunsOnFewerThreads) {
  const auto all_done = [] {
    rlimit none{};
    none.rlim_cur = none.rlim_max = std::size_t{64} << 20U;  // less than is in use
    if (setrlimit(RLIMIT_AS, &none) != 0) std::_Exit(1);
    std::array<std::atomic<int>, 100> done{};
    parallel_for(done.size(), 64, [&](std::size_t i) { ++done[i]; });
    const bool each_once = std::ranges::all_of(done, [](const auto& n) { return n == 1; });
    std::_Exit(each_once ? 0 : 2);
  };
  EXPECT_EXIT(all_done(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace tandem
