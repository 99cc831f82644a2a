#include "predict/fold/peak.h"

#include <algorithm>

namespace tandem::predict {

namespace {

TurnKind turn_kind(const lower::Turn& turn, std::int64_t micro_batches) {
  const bool forward = turn.part == lower::Part::kForward;
  if (turn.micro_batch == 0) return forward ? TurnKind::kFirstForward : TurnKind::kFirstBackward;
  const bool last = turn.micro_batch + 1 == micro_batches;
  if (forward) return last ? TurnKind::kLastForward : TurnKind::kForward;
  return last ? TurnKind::kLastBackward : TurnKind::kBackward;
}

// Returns the change in memory that a slot of this kind causes in a class of stages.
const Change& change_of(const Held& held, TurnKind kind, std::int64_t micro_batches) {
  switch (kind) {
    case TurnKind::kForward:
    case TurnKind::kFirstForward:
      return held.forward;
    case TurnKind::kLastForward:
      return held.last_forward;
    case TurnKind::kBackward:
      return held.backward;
    case TurnKind::kFirstBackward:
      return micro_batches == 1 ? held.last : held.first;
    case TurnKind::kLastBackward:
      return held.last;
  }
  CHECK(false);
}

}  // namespace

std::vector<Repeat> repeats_of(std::span<const lower::Turn> turns, std::int64_t micro_batches) {
  std::vector<Repeat::Each> all;
  for (const auto& turn : turns) {
    if (turn.part != lower::Part::kUpdate)
      all.push_back({turn.stage, turn_kind(turn, micro_batches)});
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
    for (std::size_t k = 0; k < kTurnKinds; ++k) {
      const auto kind = static_cast<TurnKind>(k);
      const auto& change = change_of(held, kind, micro_batches);
      const auto before = kind == TurnKind::kFirstForward ? total(held.from_then) : 0;
      sizes[k] = {total(change.net) + before, total(change.most) + before,
                  change.net[static_cast<std::size_t>(lower::BufferKind::kActivation)]};
    }
  }
}

Parts Peaks::always(std::size_t rank, std::size_t ranks) const {
  Parts out{};
  for (auto s = rank; s < stages_.class_of_stage.size(); s += ranks) {
    add(out, stages_.of(s).persistent);
    add(out, stages_.of(s).step);
  }
  return out;
}

Memory Peaks::fullest(std::span<const std::vector<Repeat>> turns,
                      std::span<const std::size_t> ranks) const {
  std::size_t fullest = 0;
  Fullest then;
  double most = 0;
  for (const auto rank : ranks) {
    const auto of_rank = fullest_of(turns[rank]);
    const auto all = total(always(rank, turns.size())) + of_rank.most;
    if (all <= most) continue;
    most = all;
    fullest = rank;
    then = of_rank;
  }
  There there{.live = always(fullest, turns.size())};
  there.stays = total(there.live);
  fill_in(turns[fullest], then, there);
  Memory out;
  for (auto s = fullest; s < stages_.class_of_stage.size(); s += turns.size()) {
    out.persistent += Bytes{total(stages_.of(s).persistent)};
  }
  out.kept = Bytes{then.kept};
  for (std::size_t k = 0; k < there.live.size(); ++k) out.parts[k] = Bytes{there.live[k]};
  out.peak = Bytes{total(there.live)};
  out.passing = out.peak - Bytes{there.stays};
  return out;
}

const Change& Peaks::change(const Repeat::Each& turn) const {
  return change_of(stages_.of(turn.stage), turn.kind, micro_batches_);
}

Peaks::Fullest Peaks::fullest_of(std::span<const Repeat> turns) const {
  Fullest out;
  double now = 0;
  double kept = 0;
  for (std::size_t r = 0; r < turns.size(); ++r) {
    const auto each = turns[r].each();
    const auto look = [&](double times) {
      for (std::size_t t = 0; t < each.size(); ++t) {
        const auto& size_of_turn = size(each[t]);
        if (now + size_of_turn.most > out.most) {
          out = {now + size_of_turn.most, r, times, t, out.kept};
        }
        now += size_of_turn.net;
        kept += size_of_turn.kept;
        out.kept = std::max(out.kept, kept);
      }
    };
    const auto now_before = now;
    const auto kept_before = kept;
    look(0);
    if (turns[r].times == 1) continue;
    const auto between = static_cast<double>(turns[r].times - 2);
    now += between * (now - now_before);
    kept += between * (kept - kept_before);
    look(between + 1);
  }
  return out;
}

void Peaks::fill_in(std::span<const Repeat> turns, const Fullest& then, There& there) const {
  for (const auto& repeat : turns.first(then.repeat)) {
    for (const auto& turn : repeat.each()) take(turn, repeat.times, there);
  }
  const auto each = turns[then.repeat].each();
  for (std::size_t t = 0; t < each.size(); ++t) {
    take(each[t], then.times + (t < then.turn ? 1 : 0), there);
  }
  begin(each[then.turn], there);
  add(there.live, change(each[then.turn]).most);
}

void Peaks::begin(const Repeat::Each& turn, There& there) const {
  if (turn.kind != TurnKind::kFirstForward) return;
  const auto& held = stages_.of(turn.stage);
  add(there.live, held.from_then);
  there.stays += total(held.from_then);
}

// Adds `times` runs of the slot. Only slots of middle micro-batches are taken more than once.
void Peaks::take(const Repeat::Each& turn, double times, There& there) const {
  if (times == 0) return;
  begin(turn, there);
  const auto& held = stages_.of(turn.stage);
  const auto& net = change(turn).net;
  if (turn.kind == TurnKind::kLastForward) there.stays += total(net) - total(held.forward.net);
  // From here on the sums over micro-batches are allocated.
  if (turn.kind == TurnKind::kFirstBackward) there.stays += total(net) - total(held.backward.net);
  add(there.live, net, times);
}

}  // namespace tandem::predict
