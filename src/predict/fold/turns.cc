#include "predict/fold/turns.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace tandem::predict {

namespace {

using lower::Part;
using lower::Turn;

constexpr std::uint32_t kNoPlace = 0xffffffff;

class Ordering {
 public:
  Ordering(const TurnTables::Table& turns, std::size_t stages, std::int64_t micro_batches)
      : turns_(turns),
        stages_(stages),
        micro_batches_(static_cast<std::size_t>(micro_batches)),
        next_(turns.size()) {
    for (auto& taken : taken_) taken.assign(stages * micro_batches_, kNoPlace);
    std::uint32_t places = 0;
    for (const auto& of_rank : turns) {
      out_.first_place.push_back(places);
      places += static_cast<std::uint32_t>(of_rank.size());
      out_.warm_up.push_back(warm_up_of(of_rank));
    }
    out_.first_place.push_back(places);
    out_.turns.reserve(places);
    out_.places.reserve(places);
  }

  // Orders the slots: takes one slot of every rank in turn. Adjacent slots then rarely depend on
  // each other.
  OrderedTurns run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < turns_.size(); ++r) moved = advance(r) || moved;
    }
    CHECK(out_.turns.size() == out_.first_place.back(), "deadlock: a rank waits forever");
    count_stretches();
    return std::move(out_);
  }

 private:
  // Returns the number of slots before the last forward slot that precedes the first backward slot.
  // That forward slot already alternates.
  static std::uint32_t warm_up_of(const std::vector<Turn>& turns) {
    const auto backward = std::ranges::find(turns, Part::kBackward, &Turn::part);
    return static_cast<std::uint32_t>(backward - turns.begin()) - 1;
  }

  bool advance(std::size_t rank) {
    if (next_[rank] == turns_[rank].size()) return false;
    const auto& next = turns_[rank][next_[rank]];
    auto input = out_.first_place.back();
    if (receives(next)) {
      input = taken(next, source(next));
      if (input == kNoPlace) return false;
    }
    const auto place = out_.first_place[rank] + static_cast<std::uint32_t>(next_[rank]);
    if (next.part != Part::kUpdate) taken(next, next.stage) = place;
    const auto pass = 2U * next.stage + static_cast<std::uint32_t>(next.part);
    out_.places.push_back({place, input, static_cast<std::uint32_t>(rank), pass});
    out_.turns.push_back(
        {.stage = next.stage,
         .part = next.part,
         .is_first = next.micro_batch == 0,
         .is_last = static_cast<std::size_t>(next.micro_batch) + 1 == micro_batches_});
    ++next_[rank];
    return true;
  }

  void count_stretches() {
    bool alike = true;
    out_.stretches.push_back(0);
    for (const auto& turn : out_.turns) {
      if (turn.is_alike() != alike) {
        alike = !alike;
        out_.stretches.push_back(0);
      }
      ++out_.stretches.back();
    }
  }

  [[nodiscard]] bool receives(const Turn& turn) const {
    return (turn.part == Part::kForward && turn.stage > 0) ||
           (turn.part == Part::kBackward && turn.stage + 1U < stages_);
  }
  // Returns the stage whose result `turn` receives.
  static std::size_t source(const Turn& turn) {
    return turn.part == Part::kForward ? turn.stage - 1U : turn.stage + 1U;
  }
  // Returns the place of the slot in which `stage` runs the same micro-batch in the same direction;
  // kNoPlace if it has not run yet.
  std::uint32_t& taken(const Turn& turn, std::size_t stage) {
    return taken_[static_cast<std::size_t>(turn.part)]
                 [stage * micro_batches_ + static_cast<std::size_t>(turn.micro_batch)];
  }

  const TurnTables::Table& turns_;
  std::size_t stages_, micro_batches_;
  std::vector<std::size_t> next_;                    // by rank
  std::array<std::vector<std::uint32_t>, 2> taken_;  // by direction
  OrderedTurns out_;
};

}  // namespace

const TurnTables::Table& TurnTables::of(const plan::Schedule& schedule, std::int64_t ranks,
                                        std::int64_t micro_batches) {
  const auto [at, is_new] =
      tables_.try_emplace({schedule.order, schedule.stages, ranks, micro_batches});
  if (is_new) {
    auto with_these = schedule;
    with_these.micro_batches = micro_batches;
    for (std::int64_t r = 0; r < ranks; ++r) {
      at->second.push_back(lower::turns_of(with_these, ranks, r));
    }
  }
  return at->second;
}

const std::vector<std::vector<Repeat>>& TurnTables::repeats(const plan::Schedule& schedule,
                                                            std::int64_t ranks,
                                                            std::int64_t micro_batches) {
  const auto [at, is_new] =
      repeats_.try_emplace({schedule.order, schedule.stages, ranks, micro_batches});
  if (is_new) {
    for (const auto& turns : of(schedule, ranks, micro_batches)) {
      at->second.push_back(repeats_of(turns, micro_batches));
    }
  }
  return at->second;
}

const OrderedTurns& TurnTables::ordered(const plan::Schedule& schedule, std::int64_t ranks,
                                        std::int64_t micro_batches) {
  const auto [at, is_new] =
      ordered_.try_emplace({schedule.order, schedule.stages, ranks, micro_batches});
  if (is_new) {
    const auto stages = static_cast<std::size_t>(schedule.stages);
    at->second = Ordering(of(schedule, ranks, micro_batches), stages, micro_batches).run();
  }
  return at->second;
}

}  // namespace tandem::predict
