// Peak memory of a pipeline rank over its schedule slots (lower/schedule_actions.h). Most slots
// repeat with a constant change in memory. A sequence of repeats therefore has its maximum at its
// first or last repetition.
#pragma once

#include <span>

#include "lower/schedule_actions.h"
#include "predict/fold/footprint.h"
#include "predict/memory.h"

namespace tandem::predict {

// Kinds of a stage's forward and backward slots: the first micro-batch, the last, and all others.
enum class ActionKind : std::uint8_t {
  kForward,
  kFirstForward,
  kLastForward,
  kBackward,
  kFirstBackward,
  kLastBackward
};
inline constexpr std::size_t kActionKinds = 6;

// One slot or two alternating slots, repeated. Example: F0 F1 F2 F3 B0 F4 B1 F5 B2 ... becomes F0,
// then F x 3, B0, then (F B) x n.
struct Repeat {
  struct Each {
    std::uint16_t stage = 0;
    ActionKind kind = ActionKind::kForward;
    bool operator==(const Each&) const = default;
  };
  std::array<Each, 2> actions;
  std::uint32_t count = 1;  // number of entries in `turns`
  std::uint32_t times = 1;

  [[nodiscard]] std::span<const Each> each() const { return std::span(actions).first(count); }
};

// Returns the slots of one rank as repeats, without updates.
std::vector<Repeat> find_repeats(std::span<const lower::Action> actions,
                                 std::int64_t micro_batches);

// Memory of a pipeline's stages. Stages with equal memory form a class.
struct HeldByStage {
  std::vector<HeldMemory> classes;
  std::vector<std::uint16_t> class_of_stage;

  [[nodiscard]] const HeldMemory& get_held(std::size_t stage) const {
    return classes[class_of_stage[stage]];
  }
};

// Peak memory of the ranks of a pipeline.
class Peaks {
 public:
  Peaks(const HeldByStage& stages, std::int64_t micro_batches);

  // Returns the peak memory of the fullest of `ranks`, the first of them if several are equal.
  // `turns` are the slots of all ranks.
  [[nodiscard]] Memory find_fullest(std::span<const std::vector<Repeat>> actions,
                                    std::span<const std::size_t> ranks) const;

 private:
  // Bytes that a slot adds and its maximum, summed over all kinds of buffers.
  struct Size {
    double net = 0, most = 0;
    double saved = 0;  // activations in `net`
  };
  // Slot at which a rank has most memory, and the bytes that its slots add until then.
  struct Fullest {
    double most = 0;
    std::size_t repeat = 0;
    double times = 0;        // repetitions of the repeat before it
    std::size_t action = 0;  // index of the slot within the repeat
    double saved = 0;        // most bytes of activations between two slots
  };
  // Bytes allocated at that moment, and those that are not freed with every micro-batch.
  struct There {
    Parts live{};
    double stays = 0;
  };

  [[nodiscard]] const Size& get_size(const Repeat::Each& action) const {
    return sizes_[stages_.class_of_stage[action.stage]][static_cast<std::size_t>(action.kind)];
  }
  [[nodiscard]] const MemoryChange& get_change(const Repeat::Each& action) const;
  // Returns the bytes that a rank has allocated during the whole step.
  [[nodiscard]] Parts compute_constant_parts(std::size_t rank, std::size_t ranks) const;
  [[nodiscard]] Fullest find_fullest_action(std::span<const Repeat> actions) const;
  void fill_in(std::span<const Repeat> actions, const Fullest& then, There& there) const;
  void begin(const Repeat::Each& action, There& there) const;
  void add_runs(const Repeat::Each& action, double times, There& there) const;

  const HeldByStage& stages_;
  std::int64_t micro_batches_;
  std::vector<std::array<Size, kActionKinds>> sizes_;  // by class of stages
};

}  // namespace tandem::predict
