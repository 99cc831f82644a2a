// Costs of resharding a tensor from one layout to another. The search asks for the same pairs
// millions of times. Layouts are therefore numbered, pairs of numbers are cached in a flat table,
// and pairs of lists are cached whole. Transitions with equal costs are stored once.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "machine/machine.h"
#include "machine/reshard.h"

namespace tandem::predict {

// Cost of a reshard: an affine function of the bytes, plus the collectives whose time is not
// affine. These cross links whose utilization is a curve.
//   sharded over 4 GPUs of 100 GB/s -> replicated, by one all-gather: per_byte = 3/4 / (100 GB/s),
//   memory = 1
struct Transition {
  struct CurvedCollective {
    machine::Step kind;
    machine::DigitMask digits;
    double fraction;  // bytes in it on one device / global bytes
    bool is_outer;    // whether it runs on the outer stream
    bool is_rooted;   // whether it runs on a stream for rooted collectives
  };
  // Time = latency + per_byte * (global bytes).
  struct AffineTime {
    Seconds latency;
    double per_byte = 0;
    [[nodiscard]] Seconds evaluate(double bytes) const {
      return latency + Seconds{per_byte * bytes};
    }
  };
  AffineTime all;
  AffineTime outer;   // part on the outer stream (Transitions::is_on_outer_stream)
  AffineTime rooted;  // part on the same level's streams for rooted collectives
  std::vector<CurvedCollective> curved;
  double memory = 0;  // sum over steps of result shard bytes / global bytes
};

// Cache of transitions between layouts. Not thread-safe.
class Transitions {
 public:
  using LayoutId = std::uint32_t;

  Transitions(const machine::Machine& machine, const machine::Digits& digits);

  LayoutId intern_layout(const machine::Layout& layout);

  // Transition from one layout to another, and that of its gradient back.
  struct Both {
    std::uint32_t there, back;
    [[nodiscard]] bool is_possible() const { return there != kNone; }
  };
  Both find_transitions(LayoutId from, LayoutId to);

  // Ordered list of different layouts; equal ids mean equal lists.
  struct LayoutIdList {
    Hash id = 0;
    std::vector<LayoutId> layouts;
  };
  // Returns the transitions from each layout of `from` to each of `to`, row by row. A pair is
  // impossible if it would need to create a partial sum: no operator of the forward pass does that.
  // The reference stays valid.
  const std::vector<Both>& find_transitions(const LayoutIdList& from, const LayoutIdList& to);
  [[nodiscard]] const Transition& operator[](std::uint32_t i) const { return transitions_[i]; }

  [[nodiscard]] Seconds time(const Transition& transition, double bytes) const;
  // Returns the time on the outer stream of a device that takes part in every step.
  [[nodiscard]] Seconds outer_time(const Transition& transition, double bytes) const;
  // Returns the time on one of that level's two streams for rooted collectives.
  [[nodiscard]] Seconds rooted_time(const Transition& transition, double bytes) const;
  // Returns the bytes of one device's shard / global bytes.
  [[nodiscard]] double shard_fraction(const machine::Layout& layout) const {
    machine::DigitMask dims = 0;
    for (std::size_t i = 0; i < layout.count(); ++i) {
      if (layout[i].is_dim()) dims |= machine::bit(i);
    }
    return dims < fractions_.size() ? fractions_[dims] : fraction(dims);
  }

 private:
  // Entry of a hash table with open addressing. Pairs that are looked up in sequence are adjacent.
  struct CachedTransition {
    LayoutId from = kNone, to = 0;
    Both both{};
  };
  static constexpr LayoutId kNone = 0xffffffff;

  [[nodiscard]] double fraction(machine::DigitMask dims) const {
    return 1 / static_cast<double>(digits_.group_size(dims));
  }
  // Returns whether `step` runs on the outer stream: that of collectives over the outermost
  // level with several units. No step does if the devices themselves copy (`by_device`).
  [[nodiscard]] bool is_on_outer_stream(const machine::ReshardStep& step) const;
  // Returns whether `step` is a scatter or gather over that level.
  [[nodiscard]] bool is_at_root_of_outer_level(const machine::ReshardStep& step) const;
  [[nodiscard]] bool is_on_outer_level(const machine::ReshardStep& step) const;
  // Returns the time of all collectives in `transition.curved` for which `counts` is true.
  template <class Counts>
  [[nodiscard]] Seconds curved_time(const Transition& transition, double bytes,
                                    const Counts& counts) const;
  [[nodiscard]] CachedTransition& find_slot(LayoutId from, LayoutId to);
  void grow();
  LayoutId get_dual(LayoutId id);
  Both compute_transitions(LayoutId from, LayoutId to);
  std::uint32_t make_transition(LayoutId from, LayoutId to);
  // Returns the cost of all steps together. `fractions`: by step, bytes of the larger shard before
  // or after it / global bytes.
  [[nodiscard]] Transition sum_steps(const std::vector<machine::ReshardStep>& steps,
                                     const std::vector<double>& fractions) const;

  const machine::Machine& machine_;
  const machine::Digits& digits_;
  std::vector<double> fractions_;  // by mask of sharding digits; empty for many digits
  std::vector<machine::Layout> layouts_;
  std::vector<LayoutId> duals_;  // kNone: not computed yet
  std::unordered_map<Hash, LayoutId> ids_;
  std::unordered_map<Hash, std::vector<Both>> lists_;  // by the ids of both lists
  std::vector<CachedTransition> entries_;
  std::size_t used_ = 0;
  std::vector<Transition> transitions_;
  std::unordered_map<Hash, std::uint32_t> by_steps_;
};

}  // namespace tandem::predict
