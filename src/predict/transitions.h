// What it takes to bring a tensor from one layout to another. The search asks for the same pairs
// again and again, millions of times: layouts are numbered, pairs of numbers looked up in a flat
// table, pairs of lists of them at once, and what takes the same is kept once.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "machine/machine.h"
#include "machine/reshard.h"

namespace tandem::predict {

// The affine part of its time, and the collectives whose time is not affine in the bytes: those
// over links whose utilization is a curve.
struct Transition {
  struct Collective {
    machine::Step kind;
    machine::DigitMask digits;
    double fraction;  // of the global bytes that one device has in it
    bool is_outer;    // Does it run on the outer stream,
    bool is_rooted;   // or on one for what roots send or receive?
  };
  // Time = latency + per_byte * (global bytes).
  struct Affine {
    Seconds latency;
    double per_byte = 0;
    [[nodiscard]] Seconds of(double bytes) const { return latency + Seconds{per_byte * bytes}; }
  };
  Affine all;
  Affine outer;   // the part on the outer stream (Transitions::is_on_outer_stream)
  Affine rooted;  // the part on the streams of the same level to roots and from them
  std::vector<Collective> curved;
  double memory = 0;  // of the result's shard, as a fraction of the global bytes
};

// Not thread-safe.
class Transitions {
 public:
  using LayoutId = std::uint32_t;

  Transitions(const machine::Machine& machine, const machine::Digits& digits);

  LayoutId id_of(const machine::Layout& layout);

  // From one layout to another, and of its gradient from there back.
  struct Both {
    std::uint32_t there, back;
    [[nodiscard]] bool is_possible() const { return there != kNone; }
  };
  Both between(LayoutId from, LayoutId to);

  // Different layouts in an order; equal ids mean equal lists.
  struct List {
    Hash id = 0;
    std::vector<LayoutId> layouts;
  };
  // From each of a list to each of another, row by row. Impossible where a partial sum would have
  // to be made of what is none: no operator of the forward pass does that. Stays where it is.
  const std::vector<Both>& between(const List& from, const List& to);
  [[nodiscard]] const Transition& operator[](std::uint32_t i) const { return transitions_[i]; }

  [[nodiscard]] Seconds time(const Transition& transition, double bytes) const;
  // The time that it occupies the outer stream of a device that takes part in every step.
  [[nodiscard]] Seconds outer_time(const Transition& transition, double bytes) const;
  // Likewise one of the two streams of that level to roots and from them.
  [[nodiscard]] Seconds rooted_time(const Transition& transition, double bytes) const;
  // Of the global bytes, what a device has.
  [[nodiscard]] double shard_fraction(const machine::Layout& layout) const {
    machine::DigitMask dims = 0;
    for (std::size_t i = 0; i < layout.count(); ++i) {
      if (layout[i].is_dim()) dims |= machine::bit(i);
    }
    return dims < fractions_.size() ? fractions_[dims] : fraction(dims);
  }

 private:
  // Open addressing; pairs that are asked for one after the other lie side by side.
  struct Entry {
    LayoutId from = kNone, to = 0;
    Both both{};
  };
  static constexpr LayoutId kNone = 0xffffffff;

  [[nodiscard]] double fraction(machine::DigitMask dims) const {
    return 1 / static_cast<double>(digits_.group_size(dims));
  }
  // Does the step run on the outer stream, that of collectives over the outermost level that has
  // several units? Nothing does where the devices themselves copy.
  [[nodiscard]] bool is_on_outer_stream(const machine::ReshardStep& step) const;
  // Is it a scatter or a gather over that level?
  [[nodiscard]] bool is_at_root_of_outer_level(const machine::ReshardStep& step) const;
  [[nodiscard]] bool is_on_outer_level(const machine::ReshardStep& step) const;
  // Sums the collectives that count and whose time is not affine.
  template <class Counts>
  [[nodiscard]] Seconds curved_time(const Transition& transition, double bytes,
                                    const Counts& counts) const;
  [[nodiscard]] Entry& slot(LayoutId from, LayoutId to);
  void grow();
  LayoutId dual_of(LayoutId id);
  Both made_between(LayoutId from, LayoutId to);
  std::uint32_t make(LayoutId from, LayoutId to);

  const machine::Machine& machine_;
  const machine::Digits& digits_;
  std::vector<double> fractions_;  // by the digits that cut dimensions, where those are few
  std::vector<machine::Layout> layouts_;
  std::vector<LayoutId> duals_;  // kNone: not asked for yet
  std::unordered_map<Hash, LayoutId> ids_;
  std::unordered_map<Hash, std::vector<Both>> lists_;  // by both ids
  std::vector<Entry> entries_;
  std::size_t used_ = 0;
  std::vector<Transition> transitions_;
  std::unordered_map<Hash, std::uint32_t> by_steps_;
};

}  // namespace tandem::predict
