#include "predict/fold/schedule_cache.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace tandem::predict {

namespace {

using lower::Action;
using lower::Phase;

constexpr std::uint32_t kNoPlace = 0xffffffff;

class Ordering {
 public:
  Ordering(const ScheduleCache::Table& actions, std::size_t stages, std::int64_t micro_batches)
      : actions_(actions),
        stages_(stages),
        micro_batches_(static_cast<std::size_t>(micro_batches)),
        next_(actions.size()) {
    for (auto& taken : taken_) taken.assign(stages * micro_batches_, kNoPlace);
    std::uint32_t places = 0;
    for (const auto& of_rank : actions) {
      out_.first_place.push_back(places);
      places += static_cast<std::uint32_t>(of_rank.size());
      out_.warm_up.push_back(count_warm_up(of_rank));
    }
    out_.first_place.push_back(places);
    out_.actions.reserve(places);
    out_.places.reserve(places);
  }

  // Orders the slots: takes one slot of every rank in turn. Adjacent slots then rarely depend on
  // each other.
  OrderedSchedule run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < actions_.size(); ++r) moved = advance(r) || moved;
    }
    CHECK(out_.actions.size() == out_.first_place.back(), "deadlock: a rank waits forever");
    count_stretches();
    return std::move(out_);
  }

 private:
  // Returns the number of slots before the last forward slot that precedes the first backward slot.
  // That forward slot already alternates.
  static std::uint32_t count_warm_up(const std::vector<Action>& actions) {
    const auto backward = std::ranges::find(actions, Phase::kBackward, &Action::phase);
    return static_cast<std::uint32_t>(backward - actions.begin()) - 1;
  }

  bool advance(std::size_t rank) {
    if (next_[rank] == actions_[rank].size()) return false;
    const auto& next = actions_[rank][next_[rank]];
    auto input = out_.first_place.back();
    if (receives(next)) {
      input = get_place(next, get_source_stage(next));
      if (input == kNoPlace) return false;
    }
    const auto place = out_.first_place[rank] + static_cast<std::uint32_t>(next_[rank]);
    if (next.phase != Phase::kUpdate) get_place(next, next.stage) = place;
    const auto pass = 2U * next.stage + static_cast<std::uint32_t>(next.phase);
    out_.places.push_back({place, input, static_cast<std::uint32_t>(rank), pass});
    out_.actions.push_back(
        {.stage = next.stage,
         .phase = next.phase,
         .is_first = next.micro_batch == 0,
         .is_last = static_cast<std::size_t>(next.micro_batch) + 1 == micro_batches_});
    ++next_[rank];
    return true;
  }

  void count_stretches() {
    bool alike = true;
    out_.stretches.push_back(0);
    for (const auto& action : out_.actions) {
      if (action.is_plain() != alike) {
        alike = !alike;
        out_.stretches.push_back(0);
      }
      ++out_.stretches.back();
    }
  }

  [[nodiscard]] bool receives(const Action& action) const {
    return (action.phase == Phase::kForward && action.stage > 0) ||
           (action.phase == Phase::kBackward && action.stage + 1U < stages_);
  }
  // Returns the stage whose result `action` receives.
  static std::size_t get_source_stage(const Action& action) {
    return action.phase == Phase::kForward ? action.stage - 1U : action.stage + 1U;
  }
  // Returns the place of the slot in which `stage` runs the same micro-batch in the same direction;
  // kNoPlace if it has not run yet.
  std::uint32_t& get_place(const Action& action, std::size_t stage) {
    return taken_[static_cast<std::size_t>(action.phase)]
                 [stage * micro_batches_ + static_cast<std::size_t>(action.micro_batch)];
  }

  const ScheduleCache::Table& actions_;
  std::size_t stages_, micro_batches_;
  std::vector<std::size_t> next_;                    // by rank
  std::array<std::vector<std::uint32_t>, 2> taken_;  // by direction
  OrderedSchedule out_;
};

}  // namespace

const ScheduleCache::Table& ScheduleCache::get_actions(const plan::Schedule& schedule,
                                                       std::int64_t ranks,
                                                       std::int64_t micro_batches) {
  const auto [at, is_new] =
      tables_.try_emplace({schedule.order, schedule.stages, ranks, micro_batches});
  if (is_new) {
    auto with_these = schedule;
    with_these.micro_batches = micro_batches;
    for (std::int64_t r = 0; r < ranks; ++r) {
      at->second.push_back(lower::list_actions(with_these, ranks, r));
    }
  }
  return at->second;
}

const std::vector<std::vector<Repeat>>& ScheduleCache::get_repeats(const plan::Schedule& schedule,
                                                                   std::int64_t ranks,
                                                                   std::int64_t micro_batches) {
  const auto [at, is_new] =
      repeats_.try_emplace({schedule.order, schedule.stages, ranks, micro_batches});
  if (is_new) {
    for (const auto& actions : get_actions(schedule, ranks, micro_batches)) {
      at->second.push_back(find_repeats(actions, micro_batches));
    }
  }
  return at->second;
}

const OrderedSchedule& ScheduleCache::get_ordered(const plan::Schedule& schedule,
                                                  std::int64_t ranks, std::int64_t micro_batches) {
  const auto [at, is_new] =
      ordered_.try_emplace({schedule.order, schedule.stages, ranks, micro_batches});
  if (is_new) {
    const auto stages = static_cast<std::size_t>(schedule.stages);
    at->second = Ordering(get_actions(schedule, ranks, micro_batches), stages, micro_batches).run();
  }
  return at->second;
}

}  // namespace tandem::predict
