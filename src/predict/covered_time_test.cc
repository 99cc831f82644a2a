#include "predict/covered_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tandem::predict {
namespace {

Span make_span(std::uint32_t stream, int start, int end) {
  Span out;
  out.stream = stream;
  out.start = Seconds{static_cast<double>(start)};
  out.end = Seconds{static_cast<double>(end)};
  return out;
}

TEST(CoveredTime, IsZeroWithoutSpans) { EXPECT_EQ(covered_time({}, Seconds{10}), Seconds{}); }

TEST(CoveredTime, CountsOverlapsOnce) {
  const std::vector<Span> spans = {make_span(0, 0, 4), make_span(3, 2, 6), make_span(0, 9, 11)};
  EXPECT_EQ(covered_time(spans, Seconds{10}), Seconds{7});
}

// The oracle marks every second that a span covers; seconds of the next iteration are marked in
// this one.
TEST(CoveredTime, EqualsTheNumberOfMarkedSeconds) {
  constexpr int kIteration = 40;
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int most) { return static_cast<int>(random() % (most + 1U)); };
    std::vector<Span> spans;
    std::vector<bool> marked(kIteration);
    for (std::uint32_t stream = 0; stream < 4; ++stream) {
      for (int now = draw(10); now < kIteration;) {
        const int end = now + 1 + draw(8);
        spans.push_back(make_span(stream, now, end));
        for (int t = now; t < end; ++t) marked[static_cast<std::size_t>(t % kIteration)] = true;
        now = end + draw(12);
      }
    }
    const auto seconds = std::ranges::count(marked, true);
    EXPECT_EQ(covered_time(spans, Seconds{kIteration}), Seconds{static_cast<double>(seconds)})
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace tandem::predict
