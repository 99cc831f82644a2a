// Interface between the grid and its strategies: proved lower bounds of time and memory, and
// evaluation.
//
// A pass is the forward and the backward pass of one micro-batch on the devices of one tensor and
// context parallel group. Strategies that differ only in their stages, data parallelism and ZeRO
// stage have the same passes. One bound thus serves hundreds of strategies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "predict/schedule_time.h"
#include "search/promising_settings.h"

namespace tandem::search {

// The way in which one micro-batch is computed.
struct PassKind {
  machine::DigitMask tensor = 0;
  machine::DigitMask context = 0;
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t ep = 1;  // expert parallelism, instead of tp and cp
  bool sequence_parallel = false;
  std::int64_t micro_batch_size = 1;
  std::size_t recompute = 0;  // index into the grid's recomputations
  bool in_pieces = false;     // whether stages may end inside layers
  auto operator<=>(const PassKind&) const = default;
};

// Lower bound of the time of one micro-batch in seconds. Stages, data parallelism and the ZeRO
// stage only add to it.
struct PassBound : predict::MicroBatchBound {
  // Recomputation's part of `units`, by unit. Set if `early` is empty.
  std::vector<double> recomputed = {};
  // Time that a unit waits for a collective after the compute of unit `after`, beyond what is
  // computed in between. It counts if one stage has both units.
  struct Wait {
    std::size_t unit;
    std::size_t after;
    double seconds;
    bool is_adjacent;  // whether nothing is computed in between
  };
  std::vector<Wait> waits = {};
  // A unit's result on one device, and whether it is recomputed for the backward pass.
  struct UnitResult {
    Bytes bytes;
    bool is_recomputed = false;
  };
  std::vector<UnitResult> results = {};
};

// Communication of data parallel devices on one machine level for one weight, in seconds.
struct SharedWeight {
  std::size_t unit;
  std::size_t level;
  double synchronization;  // of the gradient of one micro-batch
  double gather;           // of the weight, for the forward pass
  double regather;         // for the backward pass, if the weight is not retained
  bool is_sharded;         // false: its gradient is accumulated first, whatever the ZeRO stage
};

// The stages of a pipeline.
class Pipeline {
 public:
  virtual ~Pipeline() = default;
  struct Loads {
    std::vector<double> ranks;
    // Time of a step in the first stages of the other ranks, before the last rank begins and after
    // it ends.
    double others = 0;
  };
  // Returns the loads of one micro-batch. `accumulations` is the fraction of micro-batches that pay
  // PassBound::accumulation.
  [[nodiscard]] virtual Loads compute_loads(const PassBound& pass, double accumulations) const = 0;
  // Returns the times of one micro-batch by stage; empty if PassBound::forward is unknown.
  [[nodiscard]] virtual std::vector<predict::PassTime> compute_times(const PassBound& /*pass*/,
                                                                     bool /*accumulates*/) const {
    return {};
  }
  // Returns the rank of a unit that only one stage has.
  [[nodiscard]] virtual std::size_t get_rank(std::size_t /*unit*/) const { return 0; }
  // Returns the bytes that the fullest rank has saved for backward when its first backward pass
  // begins.
  [[nodiscard]] virtual Bytes compute_saved_bytes(const PassBound& /*pass*/) const { return {}; }
  [[nodiscard]] virtual bool is_in_pieces() const { return false; }
};

class GridModel {
 public:
  virtual ~GridModel() = default;
  // Returns null if the network cannot be divided into such stages.
  virtual std::unique_ptr<Pipeline> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                           std::int64_t micro_batches) = 0;
  // Returns the bound of a kind, whose recomputation is `recompute`. Returns nullopt if there is no
  // such strategy.
  virtual std::optional<PassBound> bound_pass(const PassKind& kind,
                                              strategies::Recompute recompute) = 0;
  // Returns the communication of each weight. The digits `ranks` distinguish the pipeline's ranks.
  // Weights are shared over all digits except these and the kind's. Returns nullopt if unknown.
  virtual std::optional<std::vector<SharedWeight>> list_shared_weights(const PassKind& /*kind*/,
                                                                       machine::DigitMask /*ranks*/,
                                                                       bool /*is_sharded*/) {
    return std::nullopt;
  }
  // Evaluates each setting; returns nullopt for those that are impossible.
  virtual std::vector<std::optional<Evaluated>> evaluate(
      const std::vector<strategies::Setting>& settings) = 0;
  // Returns the work of evaluating a strategy with this number of micro-batches: the number of
  // operators that are simulated.
  [[nodiscard]] virtual double estimate_work(std::int64_t /*micro_batches*/) const { return 0; }
  // Returns the number of strategies that are evaluated together.
  [[nodiscard]] virtual std::size_t strategies_at_once() const { return 1; }
};

}  // namespace tandem::search
