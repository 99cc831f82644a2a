// The schedule slots of a pipeline (lower/schedule_actions.h) in an order in which each slot
// follows its dependencies. One pass over them then times all. The order is computed once per
// schedule.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "lower/schedule_actions.h"
#include "predict/fold/peak.h"

namespace tandem::predict {

// Indices that are needed to time a slot. They are compact because a sweep times millions of slots.
struct ActionIndices {
  std::uint32_t taken = 0;  // its own index; slots of one rank are consecutive
  std::uint32_t input = 0;  // index of the slot whose result it receives; one past the end if none
  std::uint32_t rank = 0;
  std::uint32_t pass = 0;  // index of the stage's forward or backward pass among all passes
};

// A schedule slot.
struct OrderedAction {
  std::uint16_t stage = 0;
  lower::Phase phase = lower::Phase::kForward;
  bool is_first : 1 = false;  // micro-batch
  bool is_last : 1 = false;

  // Returns whether the slot has no work that occurs once a step: not the first forward, not the
  // last backward, and not an update.
  [[nodiscard]] bool is_plain() const {
    return phase == lower::Phase::kForward ? !is_first
                                           : phase == lower::Phase::kBackward && !is_last;
  }
};

// Slots of all ranks, each after those that it depends on.
struct OrderedSchedule {
  std::vector<ActionIndices> places;
  std::vector<OrderedAction> actions;
  // Lengths of alternating stretches: slots that are is_plain, then slots that are not, and so on.
  std::vector<std::uint32_t> stretches;
  std::vector<std::uint32_t> first_place;  // by rank, and one past the last
  std::vector<std::uint32_t> warm_up;      // by rank: slots before forward and backward alternate

  [[nodiscard]] std::size_t ranks() const { return warm_up.size(); }
};

// Cache of the slots of schedules.
class ScheduleCache {
 public:
  using Table = std::vector<std::vector<lower::Action>>;  // by rank
  const Table& get_actions(const plan::Schedule& schedule, std::int64_t ranks,
                           std::int64_t micro_batches);
  // Returns the repeats of each rank.
  const std::vector<std::vector<Repeat>>& get_repeats(const plan::Schedule& schedule,
                                                      std::int64_t ranks,
                                                      std::int64_t micro_batches);
  const OrderedSchedule& get_ordered(const plan::Schedule& schedule, std::int64_t ranks,
                                     std::int64_t micro_batches);

  // Result of a slot that has run.
  struct Taken {
    double end = 0;      // when the send of its result began; without a send, when it was ready
    double exposed = 0;  // exposed time of its rank so far
  };
  // Returns scratch memory for the slots of one pipeline, which each pipeline overwrites.
  std::vector<Taken>& get_scratch() { return taken_; }

 private:
  using Key = std::tuple<plan::Order, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, Table> tables_;
  std::map<Key, std::vector<std::vector<Repeat>>> repeats_;
  std::map<Key, OrderedSchedule> ordered_;
  std::vector<Taken> taken_;
};

}  // namespace tandem::predict
