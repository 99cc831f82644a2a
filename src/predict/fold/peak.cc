#include "predict/fold/peak.h"

#include <algorithm>

namespace tandem::predict {

namespace {

ActionKind get_action_kind(const lower::Action& action, std::int64_t micro_batches) {
  const bool forward = action.phase == lower::Phase::kForward;
  if (action.micro_batch == 0)
    return forward ? ActionKind::kFirstForward : ActionKind::kFirstBackward;
  const bool last = action.micro_batch + 1 == micro_batches;
  if (forward) return last ? ActionKind::kLastForward : ActionKind::kForward;
  return last ? ActionKind::kLastBackward : ActionKind::kBackward;
}

// Returns the change in memory that a slot of this kind causes in a class of stages.
const MemoryChange& select_change(const HeldMemory& held, ActionKind kind,
                                  std::int64_t micro_batches) {
  switch (kind) {
    case ActionKind::kForward:
    case ActionKind::kFirstForward:
      return held.forward;
    case ActionKind::kLastForward:
      return held.last_forward;
    case ActionKind::kBackward:
      return held.backward;
    case ActionKind::kFirstBackward:
      return micro_batches == 1 ? held.last : held.first;
    case ActionKind::kLastBackward:
      return held.last;
  }
  CHECK(false);
}

}  // namespace

std::vector<Repeat> find_repeats(std::span<const lower::Action> actions,
                                 std::int64_t micro_batches) {
  std::vector<Repeat::Each> all;
  for (const auto& action : actions) {
    if (action.phase != lower::Phase::kUpdate)
      all.push_back({action.stage, get_action_kind(action, micro_batches)});
  }
  const auto alike = [&](std::size_t from, std::size_t count, std::size_t times) {
    const auto next = from + times * count;
    return next + count <= all.size() &&
           std::equal(all.begin() + static_cast<std::ptrdiff_t>(from),
                      all.begin() + static_cast<std::ptrdiff_t>(from + count),
                      all.begin() + static_cast<std::ptrdiff_t>(next));
  };
  std::vector<Repeat> out;
  for (std::size_t t = 0; t < all.size();) {
    const std::size_t count = !alike(t, 1, 1) && alike(t, 2, 1) ? 2 : 1;
    std::size_t times = 1;
    while (alike(t, count, times)) ++times;
    out.push_back({{all[t], all[t + count - 1]},
                   static_cast<std::uint32_t>(count),
                   static_cast<std::uint32_t>(times)});
    t += count * times;
  }
  return out;
}

Peaks::Peaks(const HeldByStage& stages, std::int64_t micro_batches)
    : stages_(stages), micro_batches_(micro_batches) {
  sizes_.reserve(stages.classes.size());
  for (const auto& held : stages.classes) {
    auto& sizes = sizes_.emplace_back();
    for (std::size_t k = 0; k < kActionKinds; ++k) {
      const auto kind = static_cast<ActionKind>(k);
      const auto& change = select_change(held, kind, micro_batches);
      const auto before = kind == ActionKind::kFirstForward ? total(held.from_then) : 0;
      sizes[k] = {total(change.net) + before, total(change.most) + before,
                  change.net[static_cast<std::size_t>(lower::BufferKind::kActivation)]};
    }
  }
}

Parts Peaks::compute_constant_parts(std::size_t rank, std::size_t ranks) const {
  Parts out{};
  for (auto s = rank; s < stages_.class_of_stage.size(); s += ranks) {
    add(out, stages_.get_held(s).persistent);
    add(out, stages_.get_held(s).step);
  }
  return out;
}

Memory Peaks::find_fullest(std::span<const std::vector<Repeat>> actions,
                           std::span<const std::size_t> ranks) const {
  std::size_t fullest = 0;
  Fullest then;
  double most = 0;
  for (const auto rank : ranks) {
    const auto of_rank = find_fullest_action(actions[rank]);
    const auto all = total(compute_constant_parts(rank, actions.size())) + of_rank.most;
    if (all <= most) continue;
    most = all;
    fullest = rank;
    then = of_rank;
  }
  There there{.live = compute_constant_parts(fullest, actions.size())};
  there.stays = total(there.live);
  fill_in(actions[fullest], then, there);
  Memory out;
  for (auto s = fullest; s < stages_.class_of_stage.size(); s += actions.size()) {
    out.persistent += Bytes{total(stages_.get_held(s).persistent)};
  }
  out.saved = Bytes{then.saved};
  for (std::size_t k = 0; k < there.live.size(); ++k) out.parts[k] = Bytes{there.live[k]};
  out.peak = Bytes{total(there.live)};
  out.passing = out.peak - Bytes{there.stays};
  return out;
}

const MemoryChange& Peaks::get_change(const Repeat::Each& action) const {
  return select_change(stages_.get_held(action.stage), action.kind, micro_batches_);
}

Peaks::Fullest Peaks::find_fullest_action(std::span<const Repeat> actions) const {
  Fullest out;
  double now = 0;
  double kept = 0;
  for (std::size_t r = 0; r < actions.size(); ++r) {
    const auto each = actions[r].each();
    const auto look = [&](double times) {
      for (std::size_t t = 0; t < each.size(); ++t) {
        const auto& size_of_action = get_size(each[t]);
        if (now + size_of_action.most > out.most) {
          out = {now + size_of_action.most, r, times, t, out.saved};
        }
        now += size_of_action.net;
        kept += size_of_action.saved;
        out.saved = std::max(out.saved, kept);
      }
    };
    const auto now_before = now;
    const auto kept_before = kept;
    look(0);
    if (actions[r].times == 1) continue;
    const auto between = static_cast<double>(actions[r].times - 2);
    now += between * (now - now_before);
    kept += between * (kept - kept_before);
    look(between + 1);
  }
  return out;
}

void Peaks::fill_in(std::span<const Repeat> actions, const Fullest& then, There& there) const {
  for (const auto& repeat : actions.first(then.repeat)) {
    for (const auto& action : repeat.each()) add_runs(action, repeat.times, there);
  }
  const auto each = actions[then.repeat].each();
  for (std::size_t t = 0; t < each.size(); ++t) {
    add_runs(each[t], then.times + (t < then.action ? 1 : 0), there);
  }
  begin(each[then.action], there);
  add(there.live, get_change(each[then.action]).most);
}

void Peaks::begin(const Repeat::Each& action, There& there) const {
  if (action.kind != ActionKind::kFirstForward) return;
  const auto& held = stages_.get_held(action.stage);
  add(there.live, held.from_then);
  there.stays += total(held.from_then);
}

// Adds `times` runs of the slot. Only slots of middle micro-batches are taken more than once.
void Peaks::add_runs(const Repeat::Each& action, double times, There& there) const {
  if (times == 0) return;
  begin(action, there);
  const auto& held = stages_.get_held(action.stage);
  const auto& net = get_change(action).net;
  if (action.kind == ActionKind::kLastForward) there.stays += total(net) - total(held.forward.net);
  // From here on the sums over micro-batches are allocated.
  if (action.kind == ActionKind::kFirstBackward)
    there.stays += total(net) - total(held.backward.net);
  add(there.live, net, times);
}

}  // namespace tandem::predict
