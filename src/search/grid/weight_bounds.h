// Lower bounds of the costs of weights that hold whatever operators read them: memory, data
// parallel communication and updates.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "search/explore.h"
#include "search/grid/grid_model.h"
#include "search/grid/split.h"

namespace tandem::search {

// Communication of data parallel devices on a machine level, in seconds. Without a rank it is that
// of the rank with the most.
struct DataParallelTime {
  std::optional<std::size_t> rank;
  std::size_t level = 0;
  double synchronization = 0;  // gradients of one micro-batch
  double once = 0;             // gradients that are accumulated first, whatever the ZeRO stage
  double gather = 0;           // weights for the forward pass
  double regather = 0;         // weights for the backward pass
};

// Sums the times of weights by rank and level.
std::vector<DataParallelTime> sum_by_rank(const std::vector<SharedWeight>& weights,
                                          const Pipeline& pipeline);

class WeightBounds {
 public:
  explicit WeightBounds(const Case& on);

  // Bytes on each device: those held between steps, and gradients held at the end of a step with
  // this number of micro-batches.
  struct Stored {
    Bytes always;
    Bytes gradients;
  };
  [[nodiscard]] Stored bound_stored(const Split& split, std::uint8_t zero,
                                    std::int64_t micro_batches) const;
  // Returns the update time of the rank with the most.
  [[nodiscard]] double bound_update_time(const Split& split, std::uint8_t zero) const;
  // Returns the times as if all gradients were one collective and all weights another, of evenly
  // divided tensors.
  [[nodiscard]] DataParallelTime time_as_one_collective(const Split& split, bool is_sharded) const;

 private:
  void add_bytes(const Case& on);
  void add_updates(const Case& on);

  const machine::Machine& machine_;
  const machine::Digits& digits_;
  plan::Precision precision_;
  struct WeightMemory {
    Bytes weights;
    Bytes gradients;
    Bytes states;  // optimizer states and master copies
    void add(const WeightMemory& other, double share);
  };
  // Returns a lower bound of what each of `devices` devices stores if they share all weights.
  [[nodiscard]] const WeightMemory& get_memory_share(std::int64_t devices) const;
  // Keys are shapes. The empty key is for embedding tables, each of which may be whole on one
  // device.
  std::map<std::vector<std::int64_t>, WeightMemory> held_;
  mutable std::map<std::int64_t, WeightMemory> shares_;  // by number of devices
  struct DenseWeights {
    Bytes weights;
    Bytes gradients;
    Bytes read_by_backward;  // weights that the backward pass reads; embedding lookups do not
  };
  // Returns the sums over weights that can be divided by `devices`; 1: over all.
  [[nodiscard]] DenseWeights sum_divisible_by(std::int64_t devices) const;
  // Excludes embedding tables whose gradients are summed as rows.
  std::map<std::vector<std::int64_t>, DenseWeights> dense_;  // by shape
  double updates_ = 0;  // seconds on one device, without tables whose rows are updated
};

}  // namespace tandem::search
