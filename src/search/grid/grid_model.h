// What the grid asks of strategies: proved lower bounds of what they take, and what they take.
//
// A pass is the forward and the backward pass of one micro-batch on the devices of one tensor and
// context parallel group. Strategies that differ only in their stages, data parallelism and ZeRO
// stage have the same passes, so that one bound serves hundreds of strategies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "predict/schedule_time.h"
#include "search/grid_search.h"

namespace tandem::search {

// How one micro-batch is computed.
struct PassKind {
  machine::DigitMask tensor = 0;
  machine::DigitMask context = 0;
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t ep = 1;  // experts, in place of the former two
  bool sequence_parallel = false;
  std::int64_t micro_batch_size = 1;
  std::size_t recompute = 0;  // index into the grid's recomputations
  bool in_pieces = false;     // may its pipeline's stages end inside layers?
  auto operator<=>(const PassKind&) const = default;
};

// Seconds that one micro-batch takes at least, whatever the stages, the data parallel devices and
// the ZeRO stage: those only add to it.
struct PassBound : predict::PassBound {
  // Where nothing is early. By unit: of its time, what is recomputed.
  std::vector<double> recomputed = {};
  // What a unit waits for a collective after the compute of another one, beside what is computed
  // in between. It counts where one stage has both.
  struct Wait {
    std::size_t unit;
    std::size_t after;
    double seconds;
    bool is_adjacent;  // Is nothing computed in between?
  };
  std::vector<Wait> waits = {};
  // By unit: its result on one device, and whether that is recomputed where it is read again.
  struct Result {
    Bytes bytes;
    bool is_recomputed = false;
  };
  std::vector<Result> results = {};
};

// What data parallel devices send each other on one machine level because of one weight, in
// seconds.
struct SharedWeight {
  std::size_t unit;
  std::size_t level;
  double synchronization;  // of the gradient of one micro-batch
  double gather;           // of the weight, for the forward pass
  double gather_again;     // and for the backward pass, where weights are not kept
  bool is_sharded;         // else its gradient is accumulated first, whatever the ZeRO stage
};

// The stages of a pipeline.
class Pipeline {
 public:
  virtual ~Pipeline() = default;
  struct Loads {
    std::vector<double> ranks;
    // Of the first stages of all ranks, what is before the last one's and after it.
    double others = 0;
  };
  // `accumulations`: in so many of all micro-batches with PassBound::accumulation, 0 to 1.
  [[nodiscard]] virtual Loads loads(const PassBound& pass, double accumulations) const = 0;
  // By stage, what it takes of each micro-batch; empty where PassBound::forward is not known.
  [[nodiscard]] virtual std::vector<predict::PassTime> times(const PassBound& /*pass*/,
                                                             bool /*accumulates*/) const {
    return {};
  }
  // Of a unit that one stage alone has.
  [[nodiscard]] virtual std::size_t rank_of(std::size_t /*unit*/) const { return 0; }
  // What the fullest rank holds of what forward passes save when its first backward pass begins.
  [[nodiscard]] virtual Bytes held(const PassBound& /*pass*/) const { return {}; }
  [[nodiscard]] virtual bool is_in_pieces() const { return false; }
};

class GridModel {
 public:
  virtual ~GridModel() = default;
  // Null where stages cannot divide the network so.
  virtual std::unique_ptr<Pipeline> divide(std::int64_t ranks, std::int64_t stages_of_rank,
                                           std::int64_t micro_batches) = 0;
  // `recompute` is the kind's. Nothing where there is no such strategy.
  virtual std::optional<PassBound> bound(const PassKind& kind, const std::string& recompute) = 0;
  // The pipeline's ranks differ in the digits `ranks`; over all others but the kind's weights are
  // shared. Nothing where it is not known.
  virtual std::optional<std::vector<SharedWeight>> shared_weights(const PassKind& /*kind*/,
                                                                  machine::DigitMask /*ranks*/,
                                                                  bool /*is_sharded*/) {
    return std::nullopt;
  }
  // Evaluates each setting; nothing where it is impossible.
  virtual std::vector<std::optional<Evaluated>> evaluate(
      const std::vector<strategies::Setting>& settings) = 0;
  // What it takes to evaluate a strategy of so many micro-batches: operators that are simulated.
  [[nodiscard]] virtual double work(std::int64_t /*micro_batches*/) const { return 0; }
  // How many strategies are evaluated together.
  [[nodiscard]] virtual std::size_t batch() const { return 1; }
};

}  // namespace tandem::search
