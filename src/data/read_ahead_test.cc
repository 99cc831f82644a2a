#include "data/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <stdexcept>

namespace tandem::data {
namespace {

ReadAhead::Elements make_elements(std::int64_t sample) { return {static_cast<float>(sample)}; }

TEST(ReadAhead, PreparesAnnouncedSamplesInAnotherThread) {
  std::atomic<int> elsewhere = 0;
  const auto here = std::this_thread::get_id();
  ReadAhead ahead([&](std::int64_t sample) {
    elsewhere += std::this_thread::get_id() != here ? 1 : 0;
    return make_elements(sample);
  });
  EXPECT_EQ(*ahead.get(3), make_elements(3));
  EXPECT_EQ(elsewhere, 0);
  const std::vector<std::int64_t> samples = {5, 6, 7};
  ahead.prefetch(samples);
  while (elsewhere < 3) std::this_thread::yield();
  for (const auto s : samples) EXPECT_EQ(*ahead.get(s), make_elements(s));
  EXPECT_EQ(elsewhere, 3);
}

TEST(ReadAhead, RethrowsToTheCaller) {
  ReadAhead ahead([](std::int64_t sample) {
    if (sample == 1) throw std::runtime_error("no picture");
    return make_elements(sample);
  });
  ahead.prefetch(std::vector<std::int64_t>{0, 1, 2});
  EXPECT_EQ(*ahead.get(0), make_elements(0));
  EXPECT_THROW(ahead.get(1), std::runtime_error);
  EXPECT_THROW(ahead.get(1), std::runtime_error);
  EXPECT_EQ(*ahead.get(2), make_elements(2));
}

// Samples asked for in any order, announced or not, or dropped meanwhile, are always the right
// ones. An announced sample is prepared once.
TEST(ReadAhead, ReturnsTheRightSampleInAnyOrder) {
  std::mt19937 random(1);
  std::atomic<int> made = 0;
  ReadAhead ahead([&](std::int64_t sample) {
    ++made;
    return make_elements(sample);
  });
  int asked = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<std::int64_t> samples(random() % 6);
    for (auto& s : samples) s = static_cast<std::int64_t>(random() % 8);
    ahead.prefetch(samples);
    for (int i = 0; i < 4; ++i, ++asked) {
      const auto s = static_cast<std::int64_t>(random() % 8);
      EXPECT_EQ(*ahead.get(s), make_elements(s));
    }
  }
  EXPECT_LT(made, asked + 3000);
}

}  // namespace
}  // namespace tandem::data
