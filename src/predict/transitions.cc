#include "predict/transitions.h"

#include <algorithm>
#include <array>
#include <bit>

#include "predict/collectives.h"

namespace tandem::predict {

using machine::Layout;

namespace {

// Returns both layouts with dimensions renumbered in the order of first occurrence.
std::pair<Layout, Layout> renumber_dims(Layout a, Layout b) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::array<std::size_t, Shape::kMaxRank> numbers;
  numbers.fill(kNone);
  std::size_t next = 0;
  for (auto* layout : {&a, &b}) {
    for (std::size_t i = 0; i < layout->count(); ++i) {
      if (!(*layout)[i].is_dim()) continue;
      auto& number = numbers[(*layout)[i].dim()];
      if (number == kNone) number = next++;
      layout->set(i, machine::DigitRole::dim(number));
    }
  }
  return {a, b};
}

}  // namespace

Transitions::Transitions(const machine::Machine& machine, const machine::Digits& digits)
    : machine_(machine), digits_(digits), entries_(1U << 12U) {
  constexpr std::size_t kFewDigits = 12;
  if (digits.count() > kFewDigits) return;
  fractions_.resize(std::size_t{1} << digits.count());
  for (std::size_t mask = 0; mask < fractions_.size(); ++mask) {
    fractions_[mask] = fraction(static_cast<machine::DigitMask>(mask));
  }
}

Transitions::LayoutId Transitions::intern_layout(const Layout& layout) {
  const auto [at, fresh] = ids_.try_emplace(layout.hash(), static_cast<LayoutId>(layouts_.size()));
  if (fresh) {
    layouts_.push_back(layout);
    duals_.push_back(kNone);
  }
  return at->second;
}

Transitions::LayoutId Transitions::get_dual(LayoutId id) {
  if (duals_[id] == kNone) {
    const auto other = intern_layout(to_gradient_layout(layouts_[id]));
    duals_[id] = other;
    duals_[other] = id;
  }
  return duals_[id];
}

Transitions::CachedTransition& Transitions::find_slot(LayoutId from, LayoutId to) {
  constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;
  const auto mask = entries_.size() - 1;
  auto i = ((from * kSpread >> 32U) + to) & mask;
  while (entries_[i].from != kNone && (entries_[i].from != from || entries_[i].to != to)) {
    i = (i + 1) & mask;
  }
  return entries_[i];
}

void Transitions::grow() {
  auto before = std::move(entries_);
  entries_.assign(2 * before.size(), {});
  for (const auto& entry : before) {
    if (entry.from != kNone) find_slot(entry.from, entry.to) = entry;
  }
}

Transitions::Both Transitions::find_transitions(LayoutId from, LayoutId to) {
  if (const auto& known = find_slot(from, to); known.from != kNone) return known.both;
  const auto dual_from = get_dual(from);
  const auto dual_to = get_dual(to);
  const auto both = compute_transitions(from, to);
  if (2 * (used_ + 2) > entries_.size()) grow();
  find_slot(from, to) = {from, to, both};
  find_slot(dual_to, dual_from) = {dual_to, dual_from, {both.back, both.there}};
  used_ += 2;
  return both;
}

const std::vector<Transitions::Both>& Transitions::find_transitions(const LayoutIdList& from,
                                                                    const LayoutIdList& to) {
  const auto [at, fresh] = lists_.try_emplace(hash_combine(from.id, to.id));
  if (!fresh) return at->second;
  const auto partial = [&](LayoutId id) {
    return layouts_[id].digits(machine::DigitRole::kPartial);
  };
  std::vector<Both> out;
  out.reserve(from.layouts.size() * to.layouts.size());
  for (auto has : from.layouts) {
    const auto may = ~partial(has);
    for (auto wanted : to.layouts) {
      const bool is_possible = (partial(wanted) & may) == 0;
      out.push_back(is_possible ? find_transitions(has, wanted) : Both{kNone, kNone});
    }
  }
  return at->second = std::move(out);
}

// Computes both transitions. Pairs that differ only in the numbering of dimensions share one
// transition, because the cost does not depend on it.
Transitions::Both Transitions::compute_transitions(LayoutId from, LayoutId to) {
  const auto [a, b] = renumber_dims(layouts_[from], layouts_[to]);
  const auto first = intern_layout(a);
  const auto second = intern_layout(b);
  if (first != from || second != to) return find_transitions(first, second);
  return {make_transition(from, to), make_transition(get_dual(to), get_dual(from))};
}

std::uint32_t Transitions::make_transition(LayoutId from, LayoutId to) {
  const auto steps = machine::reshard(layouts_[from], layouts_[to]);
  std::vector<double> fractions;
  fractions.reserve(steps.size());
  Hash hash = steps.size();
  for (const auto& step : steps) {
    const double after = shard_fraction(step.after);
    fractions.push_back(std::max(shard_fraction(step.before), after));
    hash = hash_combine(hash, (static_cast<Hash>(step.kind) << 32U) | step.digits);
    hash = hash_combine(hash, std::bit_cast<Hash>(fractions.back()));
    hash = hash_combine(hash, std::bit_cast<Hash>(after));
  }
  const auto [at, fresh] =
      by_steps_.try_emplace(hash, static_cast<std::uint32_t>(transitions_.size()));
  if (fresh) transitions_.push_back(sum_steps(steps, fractions));
  return at->second;
}

Transition Transitions::sum_steps(const std::vector<machine::ReshardStep>& steps,
                                  const std::vector<double>& fractions) const {
  constexpr double kProbe = 1e9;
  Transition out;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& step = steps[i];
    // For types that are narrow already this is too small, so it remains a lower bound.
    const bool narrow =
        machine_.device.software.narrow_exchange && step.kind == machine::Step::kAllToAll;
    const double part = narrow ? 0.5 : 1;
    const auto time = [&](double bytes) {
      return collective_time(machine_, digits_, step.kind, step.digits, Bytes{part * bytes});
    };
    out.memory += shard_fraction(step.after);
    if (!is_local(step.kind) && !is_affine(machine_, digits_, step.kind, step.digits)) {
      out.curved.push_back({step.kind, step.digits, part * fractions[i], is_on_outer_stream(step),
                            is_at_root_of_outer_level(step)});
      continue;
    }
    const auto latency = time(0);
    const auto per_byte = fractions[i] * (time(kProbe) - latency).value / kProbe;
    const auto add = [&](Transition::AffineTime& to) {
      to.latency += latency;
      to.per_byte += per_byte;
    };
    add(out.all);
    if (is_on_outer_stream(step)) add(out.outer);
    if (is_at_root_of_outer_level(step)) add(out.rooted);
  }
  return out;
}

bool Transitions::is_on_outer_stream(const machine::ReshardStep& step) const {
  using machine::Step;
  const bool has_own_stream =
      step.kind == Step::kScatter || step.kind == Step::kGather || step.kind == Step::kSend;
  return !has_own_stream && is_on_outer_level(step);
}

bool Transitions::is_at_root_of_outer_level(const machine::ReshardStep& step) const {
  using machine::Step;
  return (step.kind == Step::kScatter || step.kind == Step::kGather) && is_on_outer_level(step);
}

bool Transitions::is_on_outer_level(const machine::ReshardStep& step) const {
  if (is_local(step.kind)) return false;
  const auto level = find_outermost_level(digits_, step.digits);
  const auto has_units = [](const machine::Level& l) { return l.count > 1; };
  const auto outermost = std::ranges::find_if(machine_.levels, has_units);
  return !machine_.levels[level].by_device &&
         outermost - machine_.levels.begin() == static_cast<std::ptrdiff_t>(level);
}

template <class Counts>
Seconds Transitions::curved_time(const Transition& transition, double bytes,
                                 const Counts& counts) const {
  Seconds out;
  for (const auto& c : transition.curved) {
    if (!counts(c)) continue;
    out += collective_time(machine_, digits_, c.kind, c.digits, Bytes{c.fraction * bytes});
  }
  return out;
}

Seconds Transitions::outer_time(const Transition& transition, double bytes) const {
  return transition.outer.evaluate(bytes) +
         curved_time(transition, bytes, [](const auto& c) { return c.is_outer; });
}

Seconds Transitions::rooted_time(const Transition& transition, double bytes) const {
  return transition.rooted.evaluate(bytes) +
         curved_time(transition, bytes, [](const auto& c) { return c.is_rooted; });
}

Seconds Transitions::time(const Transition& transition, double bytes) const {
  return transition.all.evaluate(bytes) +
         curved_time(transition, bytes, [](const auto& /*c*/) { return true; });
}

}  // namespace tandem::predict
