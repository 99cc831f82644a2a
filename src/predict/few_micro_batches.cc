#include "predict/few_micro_batches.h"

namespace tandem::predict {

namespace {

// A pipeline reaches its steady state after this many micro-batches per rank.
constexpr std::int64_t kFills = 4;
// Minimum number of further micro-batches from which the time of each is derived.
constexpr std::int64_t kTold = 8;
// Extrapolate only if there are at least this many times as many micro-batches as are simulated.
constexpr std::int64_t kMany = 2;

bool has_few_in_flight(const plan::Schedule& schedule, std::int64_t ranks) {
  switch (schedule.order) {
    case plan::Order::kGpipe:
      return false;
    case plan::Order::k1F1B:
      return schedule.stages == ranks;
    case plan::Order::kInterleaved:
      return true;
  }
  return false;
}

}  // namespace

std::optional<FewMicroBatches> find_few_micro_batches(const lower::Program& program) {
  const auto& schedule = program.schedule;
  const auto ranks = program.digits.group_size(schedule.digits);
  const bool settles = program.mode == lower::Mode::kTraining && !schedule.is_delayed() &&
                       has_few_in_flight(schedule, ranks);
  if (!settles) return std::nullopt;
  // Interleaved schedules run micro-batches in groups of as many as there are ranks.
  const auto all = schedule.micro_batches;
  const auto told = (kTold + ranks - 1) / ranks * ranks;
  const auto fewer = kFills * ranks + told + all % ranks;
  const auto more = fewer + told;
  if (all < kMany * (fewer + more)) return std::nullopt;
  return FewMicroBatches{fewer, more};
}

}  // namespace tandem::predict
