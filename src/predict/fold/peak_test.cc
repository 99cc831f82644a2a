// Compares repeats with the single slots, and the peak with one counted by hand.
#include "predict/fold/peak.h"

#include <gtest/gtest.h>

namespace tandem::predict {
namespace {

constexpr auto kActivation = static_cast<std::size_t>(lower::BufferKind::kActivation);
constexpr auto kGradient = static_cast<std::size_t>(lower::BufferKind::kGradient);

plan::Schedule schedule_like(plan::Order order, std::int64_t stages, std::int64_t micro_batches) {
  plan::Schedule out;
  out.order = order;
  out.stages = stages;
  out.micro_batches = micro_batches;
  return out;
}

std::size_t count_actions(std::span<const Repeat> repeats) {
  std::size_t out = 0;
  for (const auto& r : repeats) out += r.count * r.times;
  return out;
}

TEST(Repeats, CoverAllSlots) {
  for (const auto order : {plan::Order::kGpipe, plan::Order::k1F1B, plan::Order::kInterleaved}) {
    for (const std::int64_t chunks : {1, 3}) {
      for (const std::int64_t micro : {4, 8, 20}) {
        for (const std::int64_t rank : {0, 1, 3}) {
          const auto actions =
              lower::list_actions(schedule_like(order, 4 * chunks, micro), 4, rank);
          const auto repeats = find_repeats(actions, micro);
          EXPECT_EQ(count_actions(repeats), actions.size() - static_cast<std::size_t>(chunks));
          std::size_t at = 0;
          for (const auto& r : repeats) {
            for (std::uint32_t i = 0; i < r.times; ++i) {
              for (const auto& action : r.each()) EXPECT_EQ(action.stage, actions[at++].stage);
            }
          }
        }
      }
    }
  }
}

TEST(Repeats, AreFewForManyMicroBatches) {
  const auto actions = lower::list_actions(schedule_like(plan::Order::k1F1B, 4, 1000), 4, 0);
  const auto repeats = find_repeats(actions, 1000);
  EXPECT_EQ(count_actions(repeats), 2000U);
  EXPECT_LE(repeats.size(), 10U);
}

// Rank r of p holds the activations of p - r micro-batches between slots. A backward pass adds its
// own memory.
TEST(Peaks, EqualTheClosedFormOf1F1B) {
  for (const std::int64_t ranks : {2, 4, 8}) {
    for (const std::int64_t micro : {8, 100}) {
      HeldByStage stages;
      HeldMemory held;
      held.persistent[static_cast<std::size_t>(lower::BufferKind::kWeight)] = 1000;
      held.forward.net[kActivation] = held.forward.most[kActivation] = 10;
      held.last_forward = held.forward;
      held.backward.net[kActivation] = -10;
      held.backward.most[kGradient] = 7;
      held.first = held.last = held.backward;
      held.first.net[kGradient] = 3;  // sum over micro-batches
      held.first.most[kGradient] += 3;
      stages.classes = {held};
      stages.class_of_stage.assign(static_cast<std::size_t>(ranks), 0);
      std::vector<std::vector<Repeat>> actions;
      for (std::int64_t r = 0; r < ranks; ++r) {
        actions.push_back(find_repeats(
            lower::list_actions(schedule_like(plan::Order::k1F1B, ranks, micro), ranks, r), micro));
      }
      for (std::int64_t r = 0; r < ranks; ++r) {
        const std::vector<std::size_t> one = {static_cast<std::size_t>(r)};
        const auto memory = Peaks(stages, micro).find_fullest(actions, one);
        const auto in_flight = static_cast<double>(ranks - r);
        EXPECT_EQ(memory.saved.value, 10 * in_flight);
        EXPECT_EQ(memory.peak.value, 1000 + 10 * in_flight + 10);
        EXPECT_EQ(memory.persistent.value, 1000);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::predict
