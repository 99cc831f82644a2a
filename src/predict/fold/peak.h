// The memory of a pipeline's rank over its turns (lower/order.h). Many of these are alike: what is
// there changes by the same from one to the next, so that it is most at the first or at the last.
#pragma once

#include <span>

#include "lower/order.h"
#include "predict/fold/footprint.h"
#include "predict/memory.h"

namespace tandem::predict {

// Of a stage's turns, forward and backward: those of any micro-batch, of the first, of the last.
enum class TurnKind : std::uint8_t {
  kForward,
  kFirstForward,
  kLastForward,
  kBackward,
  kFirstBackward,
  kLastBackward
};
inline constexpr std::size_t kTurnKinds = 6;

// A turn, or two that alternate, so often: F0 F1 F2 F3 B0 F4 B1 F5 B2 ... of more micro-batches is
// F0, then F x3, B0, then (F B) x n.
struct Repeat {
  struct Each {
    std::uint16_t stage = 0;
    TurnKind kind = TurnKind::kForward;
    bool operator==(const Each&) const = default;
  };
  std::array<Each, 2> turns;
  std::uint32_t count = 1;  // of `turns` that there are
  std::uint32_t times = 1;

  [[nodiscard]] std::span<const Each> each() const { return std::span(turns).first(count); }
};

// A rank's turns, without updates.
std::vector<Repeat> repeats_of(std::span<const lower::Turn> turns, std::int64_t micro_batches);

// Of the stages of a pipeline, of which many hold the same.
struct HeldByStage {
  std::vector<Held> classes;
  std::vector<std::uint16_t> class_of_stage;

  [[nodiscard]] const Held& of(std::size_t stage) const { return classes[class_of_stage[stage]]; }
};

// The peaks on the ranks of a pipeline.
class Peaks {
 public:
  Peaks(const HeldByStage& stages, std::int64_t micro_batches);

  // Of the fullest of these ranks, the first of them; `turns` are of all ranks.
  [[nodiscard]] Memory fullest(std::span<const std::vector<Repeat>> turns,
                               std::span<const std::size_t> ranks) const;

 private:
  // What a turn adds and what there is at its fullest, of all kinds of buffers.
  struct Size {
    double net = 0, most = 0;
    double kept = 0;  // of `net`, activations
  };
  // Where in a rank's turns it has most, and how much of what its turns make.
  struct Fullest {
    double most = 0;
    std::size_t repeat = 0;
    double times = 0;      // that the repeat's turns have been taken before,
    std::size_t turn = 0;  // and which of them it is
    double kept = 0;       // the most of activations between two turns, anywhere
  };
  // What there is then, and what of it does not come and go with every micro-batch.
  struct There {
    Parts live{};
    double stays = 0;
  };

  [[nodiscard]] const Size& size(const Repeat::Each& turn) const {
    return sizes_[stages_.class_of_stage[turn.stage]][static_cast<std::size_t>(turn.kind)];
  }
  [[nodiscard]] const Change& change(const Repeat::Each& turn) const;
  // What a rank has all the time.
  [[nodiscard]] Parts always(std::size_t rank, std::size_t ranks) const;
  [[nodiscard]] Fullest fullest_of(std::span<const Repeat> turns) const;
  void fill_in(std::span<const Repeat> turns, const Fullest& then, There& there) const;
  void begin(const Repeat::Each& turn, There& there) const;
  void take(const Repeat::Each& turn, double times, There& there) const;

  const HeldByStage& stages_;
  std::int64_t micro_batches_;
  std::vector<std::array<Size, kTurnKinds>> sizes_;  // by class of stages
};

}  // namespace tandem::predict
