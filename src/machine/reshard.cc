#include "machine/reshard.h"

#include <array>
#include <bit>

namespace tandem::machine {

namespace {

constexpr auto kReplica = DigitRole::kReplica;
constexpr auto kPartial = DigitRole::kPartial;

// Returns the step that takes one digit from one role to another; all dimensions count as one role.
Step find_step_kind(DigitRole from, DigitRole to) {
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

// Order of steps: cheap and shrinking ones first, growing ones last, so later steps move less.
constexpr std::array kOrder = {
    Step::kDrop,      Step::kSlice,     Step::kMask,      Step::kReduceScatter, Step::kReduce,
    Step::kAllToAll,  Step::kScatter,   Step::kAllReduce, Step::kSend,          Step::kGather,
    Step::kAllGather, Step::kBroadcast, Step::kPad,       Step::kZero};

// Returns the digits before this one.
DigitMask get_digits_before(std::size_t digit) { return bit(digit) - 1; }

class Resharding {
 public:
  Resharding(const Layout& from, const Layout& to) : now_(from), goal_(to) {
    for (std::size_t i = 0; i < now_.count(); ++i) {
      if (now_[i].is_dim()) there_[now_[i].dim()] |= bit(i);
      if (goal_[i].is_dim()) wanted_[goal_[i].dim()] |= bit(i);
      if (now_[i] != goal_[i]) left_ |= bit(i);
    }
  }

  std::vector<ReshardStep> run() {
    constexpr std::size_t kUsual = 3;
    if (left_ != 0) steps_.reserve(kUsual);
    while (left_ != 0) {
      if (!take_any_step()) break_deadlock();
    }
    return std::move(steps_);
  }

 private:
  // Returns whether digit `i` may leave its dimension: all digits after it have other roles.
  [[nodiscard]] bool is_minor(std::size_t i) const { return (there_[now_[i].dim()] >> i) == 1; }

  // Returns whether digit `i` may now join its goal dimension as the minor digit. All digits wanted
  // before it must be there, and no digit that comes after it or must leave.
  [[nodiscard]] bool can_join(std::size_t i) const {
    const auto d = goal_[i].dim();
    return there_[d] == (wanted_[d] & get_digits_before(i));
  }

  [[nodiscard]] bool can_move(std::size_t i) const {
    return (!now_[i].is_dim() || is_minor(i)) && (!goal_[i].is_dim() || can_join(i));
  }

  // Moves one digit by the first kind of step in kOrder that some digit can take. Returns false if
  // none can. Digits that go together from one dimension to another must share one all-to-all: they
  // would have to leave minor digit first, but join major digit first.
  bool take_any_step() {
    std::array<DigitMask, kOrder.size()> of_kind{};
    static_assert(static_cast<std::size_t>(Step::kSend) < kOrder.size());
    for (auto rest = left_; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(rest));
      of_kind[static_cast<std::size_t>(find_step_kind(now_[i], goal_[i]))] |= bit(i);
    }
    for (const Step kind : kOrder) {
      for (auto rest = of_kind[static_cast<std::size_t>(kind)]; rest != 0; rest &= rest - 1) {
        const auto i = static_cast<std::size_t>(std::countr_zero(rest));
        if (kind == Step::kAllToAll) {
          const auto group = there_[now_[i].dim()] & wanted_[goal_[i].dim()];
          if (!can_move_together(group)) continue;
          move_digits(group, goal_[i]);
          return true;
        }
        if (!can_move(i)) continue;
        move_digits(bit(i), goal_[i]);
        return true;
      }
    }
    return false;
  }

  // Returns whether `group`, which goes from one dimension to another, is the minor end of the
  // first and next in the second.
  [[nodiscard]] bool can_move_together(DigitMask group) const {
    const auto first = static_cast<std::size_t>(std::countr_zero(group));
    const DigitMask before = get_digits_before(first);
    const DigitMask through_last = std::bit_floor(group) * 2 - 1;
    const auto leaves = there_[now_[first].dim()];
    const auto wanted = wanted_[goal_[first].dim()];
    const auto there = there_[goal_[first].dim()];
    return (leaves & ~before) == group && there == (wanted & before) &&
           (wanted & ~before & through_last) == group;
  }

  // Resolves a deadlock in which no digit can take its step. The last digit of an unfinished
  // dimension is gathered; it joins again later.
  void break_deadlock() {
    for (std::size_t i = now_.count(); i-- > 0;) {
      if (now_[i].is_dim() && is_minor(i) && blocks(now_[i].dim())) {
        move_digits(bit(i), kReplica);
        return;
      }
    }
    CHECK(false, to_text(now_), to_text(goal_));
  }

  // Returns whether the dimension's digit list is not yet a prefix of the wanted list.
  [[nodiscard]] bool blocks(std::size_t dim) const {
    const auto missing = wanted_[dim] & ~there_[dim];
    const auto first_missing = static_cast<std::size_t>(std::countr_zero(missing));
    return (there_[dim] & ~wanted_[dim]) != 0 ||
           (missing != 0 && (there_[dim] & ~get_digits_before(first_missing)) != 0);
  }

  // Moves the digits of `group`, which share one role, to the role `to`.
  void move_digits(DigitMask group, DigitRole to) {
    const auto from = now_[static_cast<std::size_t>(std::countr_zero(group))];
    const auto kind = find_step_kind(from, to);
    const auto from_dim = from.is_dim() ? from.dim() : 0;
    const auto to_dim = to.is_dim() ? to.dim() : 0;
    if (steps_.empty() || !can_merge(steps_.back(), kind, from_dim, to_dim)) {
      steps_.push_back({kind, 0, from_dim, to_dim, now_, {}});
    }
    for (auto rest = group; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(rest));
      now_.set(i, to);
      left_ = to == goal_[i] ? left_ & ~bit(i) : left_ | bit(i);
    }
    if (from.is_dim()) there_[from.dim()] &= ~group;
    if (to.is_dim()) there_[to.dim()] |= group;
    steps_.back().digits |= group;
    steps_.back().after = now_;
  }

  // Returns whether the step merges with the last one: one collective over both digits has the same
  // effect if digits that leave or join a dimension keep machine order within it.
  static bool can_merge(const ReshardStep& last, Step kind, std::size_t from_dim,
                        std::size_t to_dim) {
    return last.kind == kind && last.from_dim == from_dim && last.to_dim == to_dim &&
           kind != Step::kAllToAll;
  }

  Layout now_;
  const Layout& goal_;
  DigitMask left_ = 0;                              // digits not yet in their goal roles
  std::array<DigitMask, Shape::kMaxRank> there_{};  // by dimension: digits that cut it now
  std::array<DigitMask, Shape::kMaxRank> wanted_{};
  std::vector<ReshardStep> steps_;
};

}  // namespace

std::int64_t find_root_rank(const ReshardStep& step, const Digits& digits) {
  const bool leaves = (step.before.idle() & step.digits) != 0;
  return compute_place_rank(leaves ? step.before : step.after, step.digits, digits);
}

std::int64_t find_target_rank(const ReshardStep& step, const Digits& digits) {
  return compute_place_rank(step.after, step.digits, digits);
}

std::vector<ReshardStep> reshard(const Layout& from, const Layout& to) {
  CHECK(from.count() == to.count());
  return Resharding(from, to).run();
}

Bytes compute_bytes_sent(const Digits& digits, Step kind, DigitMask group, Bytes bytes) {
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
