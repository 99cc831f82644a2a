// Tests interference of compute and communication against sums computed by hand.
#include "predict/interference.h"

#include <gtest/gtest.h>

namespace tandem::predict {
namespace {

constexpr auto kCompute = Activity::kCompute;
constexpr auto kMoves = Activity::kCommunication;

TEST(Interference, IsZeroWithoutARate) {
  InterferenceModel b(0);
  b.add(kMoves, Seconds{0}, Seconds{10});
  EXPECT_EQ(b.compute_end(kCompute, Seconds{2}, Seconds{4}), Seconds{6});
  EXPECT_EQ(b.add(kCompute, Seconds{2}, Seconds{6}), Seconds{0});
}

TEST(Interference, StretchesOverlappingWork) {
  InterferenceModel b(0.5);
  b.add(kMoves, Seconds{10}, Seconds{16});
  b.add(kMoves, Seconds{16}, Seconds{19});
  b.add(kMoves, Seconds{30}, Seconds{33});
  EXPECT_EQ(b.compute_end(kCompute, Seconds{0}, Seconds{10}), Seconds{10});   // before the overlap
  EXPECT_EQ(b.compute_end(kCompute, Seconds{20}, Seconds{10}), Seconds{30});  // between
  EXPECT_EQ(b.compute_end(kCompute, Seconds{10}, Seconds{6}), Seconds{19});   // overlaps entirely
  EXPECT_EQ(b.compute_end(kCompute, Seconds{12}, Seconds{2}),
            Seconds{15});  // overlaps until its end
  EXPECT_EQ(b.compute_end(kCompute, Seconds{8}, Seconds{4}),
            Seconds{13});  // the last 2 of 4 overlap
  // 2 alone, 9 seconds for 6 of work, 11 alone, 3 seconds for 2 of work, then 4 alone.
  EXPECT_EQ(b.compute_end(kCompute, Seconds{8}, Seconds{25}), Seconds{37});
  // A task of the same kind does not slow it down.
  EXPECT_EQ(b.compute_end(kMoves, Seconds{10}, Seconds{6}), Seconds{16});
}

TEST(Interference, DelaysScheduledWork) {
  InterferenceModel b(0.25);
  b.add(kCompute, Seconds{0}, Seconds{8});
  b.add(kCompute, Seconds{12}, Seconds{16});
  EXPECT_EQ(b.add(kMoves, Seconds{6}, Seconds{14}), Seconds{1});  // overlaps 2 and 2 seconds
  EXPECT_EQ(b.add(kMoves, Seconds{20}, Seconds{30}), Seconds{0});
}

}  // namespace
}  // namespace tandem::predict
