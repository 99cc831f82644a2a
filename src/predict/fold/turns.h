// The turns of a pipeline (lower/order.h) in an order in which each finds what it needs, so that
// one run over them times them all. Made once for a schedule.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "lower/order.h"
#include "predict/fold/peak.h"

namespace tandem::predict {

// Where what a turn needs lies, in bytes behind the first of its kind: most turns are nothing else,
// and a sweep takes millions.
struct TurnOffsets {
  std::uint32_t taken = 0;  // of what is noted of it: one rank's turns after the other's
  std::uint32_t input = 0;  // of the turn whose result it receives; behind all where none
  std::uint32_t rank = 0;
  std::uint32_t pass = 0;  // of all stages' forward and backward passes
};
// The sizes of what lies there.
inline constexpr std::uint32_t kTakenBytes = 16;
inline constexpr std::uint32_t kRankBytes = 72;
inline constexpr std::uint32_t kPassBytes = 48;

struct OrderedTurn {
  std::uint16_t stage = 0;
  lower::Part part = lower::Part::kForward;
  bool is_first : 1 = false;  // micro-batch
  bool is_last : 1 = false;

  // Not the first forward, not the last back, and no update: those that do nothing once a step.
  [[nodiscard]] bool is_alike() const {
    return part == lower::Part::kForward ? !is_first : part == lower::Part::kBackward && !is_last;
  }
};

// Of all ranks, each turn behind those that it waits for.
struct OrderedTurns {
  std::vector<TurnOffsets> offsets;
  std::vector<OrderedTurn> turns;
  // How many turns are alike, how many after these are not, and so on.
  std::vector<std::uint32_t> stretches;
  std::vector<std::uint32_t> first_place;  // by rank, and one behind the last
  std::vector<std::uint32_t> warm_up;      // by rank: turns before forward and backward alternate

  [[nodiscard]] std::size_t ranks() const { return warm_up.size(); }
};

class TurnTables {
 public:
  using Table = std::vector<std::vector<lower::Turn>>;  // by rank
  const Table& of(const plan::Schedule& schedule, std::int64_t ranks, std::int64_t micro_batches);
  // By rank.
  const std::vector<std::vector<Repeat>>& repeats(const plan::Schedule& schedule,
                                                  std::int64_t ranks, std::int64_t micro_batches);
  const OrderedTurns& ordered(const plan::Schedule& schedule, std::int64_t ranks,
                              std::int64_t micro_batches);

  // Of a turn that has been taken.
  struct Taken {
    double end = 0;      // when its result began to be sent; where nothing is sent, was there
    double exposed = 0;  // by the rank, so far
  };
  // Room for those of one pipeline, which every one writes anew.
  std::vector<Taken>& taken() { return taken_; }
  static_assert(sizeof(Taken) == kTakenBytes);

 private:
  using Key = std::tuple<plan::Order, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, Table> tables_;
  std::map<Key, std::vector<std::vector<Repeat>>> repeats_;
  std::map<Key, OrderedTurns> ordered_;
  std::vector<Taken> taken_;
};

}  // namespace tandem::predict
