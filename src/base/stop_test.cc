#include "base/stop.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/check.h"
#include "base/parallel.h"

namespace tandem {

namespace {

TEST(Stop, DoesNothingWithoutARequest) { EXPECT_NO_THROW(throw_if_stopped()); }

TEST(Stop, ThrowsOnceRequested) {
  bool wanted = false;
  {
    const StopWhen asked([&] { return wanted; });
    EXPECT_NO_THROW(throw_if_stopped());
    wanted = true;
    EXPECT_THROW(throw_if_stopped(), Stopped);
  }
  EXPECT_NO_THROW(throw_if_stopped());
}

TEST(Stop, StopsParallelLoops) {
  std::atomic<int> rounds = 0;
  const StopWhen asked([&] { return rounds > 10; });
  EXPECT_THROW(parallel_for(1'000'000, 2,
                            [&](std::size_t /*i*/) {
                              ++rounds;
                              throw_if_stopped();
                            }),
               Stopped);
  EXPECT_LT(rounds, 1000);
}

TEST(Check, AbortsOrThrowsOnRequest) {
  EXPECT_DEATH(CHECK(1 > 2, "why"), "CHECK\\(1 > 2\\) failed at .*stop_test.cc.*why");
  const FailedChecksThrow here;
  try {
    CHECK(1 > 2, "why");
    FAIL() << "goes on";
  } catch (const CheckFailed& failed) {
    EXPECT_NE(std::string(failed.what()).find("CHECK(1 > 2) failed"), std::string::npos);
  }
}

}  // namespace

}  // namespace tandem
