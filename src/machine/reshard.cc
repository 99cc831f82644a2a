#include "machine/reshard.h"

#include <array>
#include <bit>

namespace tandem::machine {

namespace {

constexpr auto kReplica = DigitRole::kReplica;
constexpr auto kPartial = DigitRole::kPartial;

// The step that takes one digit from a role to another, both dimensions counted as one kind.
Step kind_of(DigitRole from, DigitRole to) {
  if (from.is_dim()) {
    if (to.is_dim()) return Step::kAllToAll;
    if (to == kReplica) return Step::kAllGather;
    return to == kPartial ? Step::kPad : Step::kGather;
  }
  if (from == kReplica) {
    if (to.is_dim()) return Step::kSlice;
    return to == kPartial ? Step::kMask : Step::kDrop;
  }
  if (from == kPartial) {
    if (to.is_dim()) return Step::kReduceScatter;
    return to == kReplica ? Step::kAllReduce : Step::kReduce;
  }
  if (to.is_dim()) return Step::kScatter;
  if (to.is_idle()) return Step::kSend;
  return to == kReplica ? Step::kBroadcast : Step::kZero;
}

// Cheap and shrinking first, growing last: what is left to move is then smallest.
constexpr std::array kOrder = {
    Step::kDrop,      Step::kSlice,     Step::kMask,      Step::kReduceScatter, Step::kReduce,
    Step::kAllToAll,  Step::kScatter,   Step::kAllReduce, Step::kSend,          Step::kGather,
    Step::kAllGather, Step::kBroadcast, Step::kPad,       Step::kZero};

class Resharding {
 public:
  Resharding(const Layout& from, const Layout& to) : now_(from), goal_(to) {}

  std::vector<ReshardStep> run() {
    while (now_ != goal_) {
      if (!take_any_step()) clear_the_way();
    }
    return std::move(steps_);
  }

 private:
  // May digit `i` leave its dimension: are all digits after it in other roles?
  [[nodiscard]] bool is_minor(std::size_t i) const {
    for (std::size_t j = i + 1; j < now_.count(); ++j) {
      if (now_[j] == now_[i]) return false;
    }
    return true;
  }

  // May digit `i` join its goal dimension now, becoming its minor digit? Every digit that the
  // dimension shall have before it must be there, and none that comes after or shall leave.
  [[nodiscard]] bool can_join(std::size_t i) const {
    for (std::size_t j = 0; j < now_.count(); ++j) {
      const bool there = now_[j] == goal_[i];
      const bool wanted = j < i && goal_[j] == goal_[i];
      if (there != wanted) return false;
    }
    return true;
  }

  [[nodiscard]] bool possible(std::size_t i) const {
    return (!now_[i].is_dim() || is_minor(i)) && (!goal_[i].is_dim() || can_join(i));
  }

  // One digit by the first kind of step in kOrder that some digit can take. (Digits that go from
  // one dimension to another together must move in one all-to-all: leaving wants the minor one
  // first, joining the major one.)
  bool take_any_step() {
    std::array<Step, Digits::kMax> kinds{};
    DigitMask left = 0;
    for (std::size_t i = 0; i < now_.count(); ++i) {
      if (now_[i] == goal_[i]) continue;
      kinds[i] = kind_of(now_[i], goal_[i]);
      left |= bit(i);
    }
    for (const Step kind : kOrder) {
      for (auto rest = left; rest != 0; rest &= rest - 1) {
        const auto i = static_cast<std::size_t>(std::countr_zero(rest));
        if (kinds[i] != kind) continue;
        if (kind == Step::kAllToAll) {
          const auto group = moving_with(i);
          if (!possible_together(group)) continue;
          take(group, goal_[i]);
          return true;
        }
        if (!possible(i)) continue;
        take(bit(i), goal_[i]);
        return true;
      }
    }
    return false;
  }

  // The digits that go from and to the same dimensions as digit `i`.
  [[nodiscard]] DigitMask moving_with(std::size_t i) const {
    return now_.digits(now_[i]) & goal_.digits(goal_[i]);
  }

  // Is `group` the minor end of the dimension it leaves, and the next in the one it joins?
  [[nodiscard]] bool possible_together(DigitMask group) const {
    const auto first = static_cast<std::size_t>(std::countr_zero(group));
    const DigitMask before = (DigitMask{1} << first) - 1;
    const DigitMask through_last = std::bit_floor(group) * 2 - 1;
    const auto leaves = now_.digits(now_[first]);
    const auto wanted = goal_.digits(goal_[first]);
    const auto there = now_.digits(goal_[first]);
    return (leaves & ~before) == group && there == (wanted & before) &&
           (wanted & ~before & through_last) == group;
  }

  // No digit can take its step: the last digit of a dimension that is not as it shall be is
  // gathered, and will join again later.
  void clear_the_way() {
    for (std::size_t i = now_.count(); i-- > 0;) {
      if (now_[i].is_dim() && is_minor(i) && blocks(now_[i])) {
        take(DigitMask{1} << i, kReplica);
        return;
      }
    }
    CHECK(false, to_text(now_), to_text(goal_));
  }

  // Is the dimension's digit list not yet a prefix of what it shall be?
  [[nodiscard]] bool blocks(DigitRole dim) const {
    bool missing = false;
    for (std::size_t j = 0; j < now_.count(); ++j) {
      const bool there = now_[j] == dim;
      const bool wanted = goal_[j] == dim;
      if (there && (!wanted || missing)) return true;
      if (wanted && !there) missing = true;
    }
    return false;
  }

  // The digits of `group` all have one role now and get another.
  void take(DigitMask group, DigitRole to) {
    const auto from = now_[static_cast<std::size_t>(std::countr_zero(group))];
    ReshardStep step{.kind = kind_of(from, to), .digits = group, .before = now_, .after = {}};
    if (from.is_dim()) step.from_dim = from.dim();
    if (to.is_dim()) step.to_dim = to.dim();
    for (std::size_t i = 0; i < now_.count(); ++i) {
      if (((group >> i) & 1U) != 0) now_.set(i, to);
    }
    step.after = now_;
    if (!steps_.empty() && joins(steps_.back(), step)) {
      steps_.back().digits |= step.digits;
      steps_.back().after = step.after;
    } else {
      steps_.push_back(step);
    }
  }

  // One collective over both digits does the same as two, if digits that leave or join a dimension
  // keep machine order within it.
  static bool joins(const ReshardStep& last, const ReshardStep& next) {
    return last.kind == next.kind && last.from_dim == next.from_dim && last.to_dim == next.to_dim &&
           last.kind != Step::kAllToAll;
  }

  Layout now_;
  const Layout& goal_;
  std::vector<ReshardStep> steps_;
};

}  // namespace

std::int64_t root_of(const ReshardStep& step, const Digits& digits) {
  const bool leaves = (step.before.idle() & step.digits) != 0;
  return rank_of_place(leaves ? step.before : step.after, step.digits, digits);
}

std::int64_t target_of(const ReshardStep& step, const Digits& digits) {
  return rank_of_place(step.after, step.digits, digits);
}

std::vector<ReshardStep> reshard(const Layout& from, const Layout& to) {
  CHECK(from.count() == to.count());
  return Resharding(from, to).run();
}

Bytes bytes_sent(const Digits& digits, Step kind, DigitMask group, Bytes bytes) {
  const auto n = static_cast<double>(digits.group_size(group));
  const Bytes others = (n - 1) / n * bytes;
  switch (kind) {
    case Step::kAllReduce:
      return 2 * others;
    case Step::kReduceScatter:
    case Step::kAllGather:
    case Step::kAllToAll:
    case Step::kReduce:
    case Step::kBroadcast:
      return others;
    case Step::kGather:
    case Step::kScatter:
      return others / n;
    case Step::kSend:
      return bytes / n;
    case Step::kShift:
      return bytes;
    default:
      CHECK(is_local(kind));
      return Bytes{};
  }
}

}  // namespace tandem::machine
