// Compares pipelines with closed forms, and extrapolation with running every slot.
#include "predict/fold/pipeline.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tandem::predict {
namespace {

plan::Schedule make_schedule(plan::Order order, std::int64_t stages, std::int64_t micro_batches) {
  plan::Schedule out;
  out.order = order;
  out.stages = stages;
  out.micro_batches = micro_batches;
  return out;
}

// Equal stages that send nothing take (m + p - 1) (f + b), and interleaved v times (m + (p - 1) /
// v) (f + b).
TEST(PipelineTime, EqualsTheClosedFormForEqualStages) {
  ScheduleCache actions;
  for (const std::int64_t ranks : {2, 4, 8}) {
    for (const std::int64_t chunks : {1, 2, 3}) {
      for (const std::int64_t rounds : {1, 2, 8}) {
        const auto micro = rounds * ranks;
        const auto order = chunks > 1 ? plan::Order::kInterleaved : plan::Order::k1F1B;
        const std::vector<StageTimes> stages(static_cast<std::size_t>(ranks * chunks),
                                             {.forward = 1, .backward = 2});
        const std::vector<StageTransfer> free(static_cast<std::size_t>(ranks * chunks) - 1);
        const auto time = compute_pipeline_time(make_schedule(order, ranks * chunks, micro), ranks,
                                                stages, free, {}, actions);
        EXPECT_NEAR(time.end, 3.0 * static_cast<double>(micro * chunks + ranks - 1), 1e-9)
            << ranks << " ranks, " << chunks << " stages each, " << micro << " micro-batches";
        EXPECT_NEAR(time.busy[0], 3.0 * static_cast<double>(micro * chunks), 1e-9);
      }
    }
  }
}

TEST(PipelineTime, AgreesWithSlotBySlotSimulation) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE(seed);
  std::uint64_t drawn = 0;
  const auto between = [&](double low, double high) {
    return low + (high - low) * draw_uniform(seed, 0, 0, drawn++);
  };
  const auto whole = [&](std::int64_t low, std::int64_t high) {  // `high` is excluded
    return static_cast<std::int64_t>(between(static_cast<double>(low), static_cast<double>(high)));
  };
  ScheduleCache actions;
  double worst = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t ranks = whole(2, 9);
    const std::int64_t chunks = whole(1, 4);
    const auto micro = ranks * whole(3, 23);
    const auto order = chunks > 1 ? plan::Order::kInterleaved : plan::Order::k1F1B;
    std::vector<StageTimes> stages;
    // Stages between the first and the last are equal.
    const auto stage = [&] {
      const auto forward = between(1, 1.3);
      StageTimes out{
          .forward = forward, .backward = between(1.8, 3) * forward, .after = 1, .updates = 1};
      if (trial % 2 == 0) {  // half of the trials have hosts, some slower than devices
        const auto host = [&](double time) {
          const auto dispatch = between(0.5, 1.2) * time;
          return HostTimes{dispatch, std::max(dispatch, time) + between(0, 0.2)};
        };
        out.host_first = out.host_forward = host(out.forward);
        out.host_last = out.host_backward = host(out.backward);
        out.wait = trial % 4 == 0 ? 0.1 : 0;
      }
      return out;
    };
    stages.assign(static_cast<std::size_t>(ranks * chunks), stage());
    stages.front() = stage();
    stages.back() = stage();
    std::vector<StageTransfer> transfers;
    const auto longest = trial % 3 == 0 ? 0.5 : 0.05;  // a third of the trials sends much
    for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
      transfers.push_back({between(0, longest), between(0, longest)});
    }
    const auto schedule = make_schedule(order, ranks * chunks, micro);
    const auto fast = compute_pipeline_time(schedule, ranks, stages, transfers, {}, actions);
    const auto slow = compute_unextrapolated_time(schedule, ranks, stages, transfers, {}, actions);
    SCOPED_TRACE(::testing::Message() << "trial " << trial << ": " << ranks << " ranks, " << chunks
                                      << " stages each, " << micro << " micro-batches");
    constexpr double kRounding = 1e-6;
    EXPECT_NEAR(fast.end, slow.end, kRounding * slow.end);
    for (std::size_t r = 0; r < slow.busy.size(); ++r) {
      EXPECT_NEAR(fast.busy[r], slow.busy[r], kRounding * slow.end);
      EXPECT_NEAR(fast.exposed[r], slow.exposed[r], kRounding * slow.end);
    }
    worst = std::max(worst, std::abs(fast.end / slow.end - 1));
  }
  RecordProperty("worst", std::to_string(worst));
}

}  // namespace
}  // namespace tandem::predict
