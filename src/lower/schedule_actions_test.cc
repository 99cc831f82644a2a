#include "lower/schedule_actions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace tandem::lower {
namespace {

using plan::Order;

// Returns slots as text: "F0 F1 B0". A stage after the rank's first one is "F0'1".
std::string format_actions(const std::vector<Action>& actions, std::int64_t ranks) {
  std::string out;
  for (const auto& action : actions) {
    if (action.phase == Phase::kUpdate) continue;
    out += fmt::format("{}{}{}", out.empty() ? "" : " ",
                       action.phase == Phase::kForward ? "F" : "B", action.micro_batch);
    if (action.stage >= ranks) out += fmt::format("'{}", action.stage / ranks);
  }
  return out;
}

TEST(Order, ListsTheUsualSchedules) {
  const auto actions = [](Order order, std::int64_t micro, std::int64_t stages, std::int64_t ranks,
                          std::int64_t rank) {
    return format_actions(
        list_actions({.order = order, .micro_batches = micro, .stages = stages}, ranks, rank),
        ranks);
  };
  EXPECT_EQ(actions(Order::kGpipe, 3, 2, 2, 0), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(actions(Order::k1F1B, 4, 2, 2, 0), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(actions(Order::k1F1B, 4, 2, 2, 1), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(actions(Order::kInterleaved, 2, 4, 2, 1), "F0 F1 F0'1 B0'1 F1'1 B1'1 B0 B1");
}

// Overlapping steps fill the pipeline once. The updates U follow a step's last backward slot.
TEST(Order, HasNoFlushWithDelayedUpdates) {
  const auto actions = [](std::int64_t rank) {
    std::string out;
    const plan::Schedule schedule{
        .micro_batches = 2, .stages = 2, .semantics = plan::Semantics::kDelayed1};
    for (const auto& action : list_actions(schedule, 2, rank, Mode::kTraining, 3)) {
      out += fmt::format("{}{}", out.empty() ? "" : " ", "FBU"[static_cast<int>(action.phase)]);
      out += action.phase == Phase::kUpdate ? fmt::format("{}", action.step)
                                            : fmt::format("{}.{}", action.step, action.micro_batch);
    }
    return out;
  };
  EXPECT_EQ(actions(0), "F0.0 F0.1 B0.0 F1.0 B0.1 U0 F1.1 B1.0 F2.0 B1.1 U1 F2.1 B2.0 B2.1 U2");
  EXPECT_EQ(actions(1), "F0.0 B0.0 F0.1 B0.1 U0 F1.0 B1.0 F1.1 B1.1 U1 F2.0 B2.0 F2.1 B2.1 U2");
}

// Every stage runs every micro-batch once forward and once backward, in ascending order.
TEST(Order, IsComplete) {
  for (auto order : {Order::kGpipe, Order::k1F1B, Order::kInterleaved}) {
    for (std::int64_t ranks : {1, 2, 4}) {
      for (std::int64_t chunks : {1, 2, 3}) {
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const plan::Schedule schedule{
              .order = order, .micro_batches = 2 * ranks, .stages = ranks * chunks};
          std::map<std::pair<std::uint16_t, Phase>, std::int64_t> next;
          for (const auto& action : list_actions(schedule, ranks, rank)) {
            EXPECT_EQ(action.stage % ranks, rank);
            if (action.phase == Phase::kUpdate) continue;
            EXPECT_EQ(action.micro_batch, (next[{action.stage, action.phase}]++));
          }
          EXPECT_EQ(static_cast<std::int64_t>(next.size()), 2 * chunks);
          for (const auto& [key, count] : next) EXPECT_EQ(count, 2 * ranks);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::lower
