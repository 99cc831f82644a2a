#include "lower/schedule_actions.h"

#include <algorithm>

namespace tandem::lower {

namespace {

// The schedule slots of one rank in steps that overlap. They are treated as one step with more
// micro-batches.
class Flow {
 public:
  Flow(const plan::Schedule& schedule, std::int64_t ranks, std::int64_t rank,
       std::int64_t first_step, std::int64_t steps)
      : s_(schedule),
        ranks_(ranks),
        rank_(rank),
        chunks_(schedule.stages / ranks),
        per_step_(schedule.micro_batches * chunks_),
        first_step_(first_step),
        all_(per_step_ * steps) {}

  void append_inference(std::vector<Action>& out) const {
    SchedulePosition place;
    for (std::int64_t k = 0; k < all_; ++k) add_forward(place, out);
  }

  void append_training(std::vector<Action>& out) const {
    const auto first = count_warm_up_slots();
    out.reserve(out.size() + static_cast<std::size_t>(2 * all_ + all_ / per_step_ * chunks_));
    SchedulePosition forward;
    SchedulePosition backward;
    for (std::int64_t k = 0; k < first; ++k) add_forward(forward, out);
    for (std::int64_t k = first; k < all_; ++k) {
      add_forward(forward, out);
      add_backward(backward, out);
    }
    for (std::int64_t k = all_ - first; k < all_; ++k) add_backward(backward, out);
  }

 private:
  // Returns the number of forward slots before the rank begins to alternate.
  [[nodiscard]] std::int64_t count_warm_up_slots() const {
    switch (s_.order) {
      case plan::Order::kGpipe:
        return all_;
      case plan::Order::k1F1B:
        // With several stages per rank, each waits for the whole pipeline of the stages before it.
        return std::min(all_, chunks_ > 1 ? all_ : ranks_ - rank_ - 1);
      case plan::Order::kInterleaved:
        return std::min(all_, chunks_ > 1 ? (ranks_ - rank_ - 1) * 2 + (chunks_ - 1) * ranks_
                                          : ranks_ - rank_ - 1);
    }
    CHECK(false);
  }

  // The position of the rank's next forward slot. A group of micro-batches runs through the rank's
  // first stage, then the same group through its second stage, and so on. Backward slots do the
  // same with the stages in reverse.
  struct SchedulePosition {
    std::int64_t step = 0;
    std::int64_t before = 0;    // micro-batches in the step's earlier groups
    std::int64_t chunk = 0;     // index among the rank's stages
    std::int64_t in_group = 0;  // index of the micro-batch in its group
  };

  // Advances `place` by one slot. Returns whether it is now at a step's first slot.
  bool advance(SchedulePosition& place) const {
    const auto group = s_.order == plan::Order::kInterleaved ? ranks_ : s_.micro_batches;
    if (++place.in_group < group) return false;
    place.in_group = 0;
    if (++place.chunk < chunks_) return false;
    place.chunk = 0;
    place.before += group;
    if (place.before < s_.micro_batches) return false;
    place.before = 0;
    ++place.step;
    return true;
  }

  void add_forward(SchedulePosition& place, std::vector<Action>& out) const {
    out.push_back({static_cast<std::uint16_t>(place.chunk * ranks_ + rank_), Phase::kForward,
                   place.before + place.in_group, first_step_ + place.step});
    advance(place);
  }

  // Appends a backward slot. The last one of a step is followed by the step's updates.
  void add_backward(SchedulePosition& place, std::vector<Action>& out) const {
    const auto step = first_step_ + place.step;
    const auto chunk = chunks_ - 1 - place.chunk;
    out.push_back({static_cast<std::uint16_t>(chunk * ranks_ + rank_), Phase::kBackward,
                   place.before + place.in_group, step});
    if (!advance(place)) return;
    for (std::int64_t c = 0; c < chunks_; ++c) {
      out.push_back({static_cast<std::uint16_t>(c * ranks_ + rank_), Phase::kUpdate,
                     s_.micro_batches - 1, step});
    }
  }

  const plan::Schedule& s_;
  std::int64_t ranks_, rank_, chunks_;
  std::int64_t per_step_;  // number of forward slots per step, equal to that of backward slots
  std::int64_t first_step_;
  std::int64_t all_;  // number of forward slots in all steps
};

}  // namespace

std::vector<Action> list_actions(const plan::Schedule& schedule, std::int64_t ranks,
                                 std::int64_t rank, Mode mode, std::int64_t steps) {
  const auto flowing = schedule.is_delayed() ? steps : 1;
  std::vector<Action> out;
  for (std::int64_t step = 0; step < steps; step += flowing) {
    const Flow flow(schedule, ranks, rank, step, flowing);
    if (mode == Mode::kInference) {
      flow.append_inference(out);
    } else {
      flow.append_training(out);
    }
  }
  return out;
}

std::vector<Action> list_actions(const Program& program, std::int64_t micro_batches,
                                 std::int64_t rank, std::int64_t steps) {
  auto schedule = program.schedule;
  schedule.micro_batches = micro_batches;
  return list_actions(schedule, program.digits.group_size(schedule.digits), rank, program.mode,
                      steps);
}

}  // namespace tandem::lower
