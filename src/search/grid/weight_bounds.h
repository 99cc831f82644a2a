// What weights take at least, whatever the operators that read them: memory, the communication of
// data parallel devices, and updates.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "search/explore.h"
#include "search/grid/grid_model.h"
#include "search/grid/split.h"

namespace tandem::search {

// What data parallel devices of a rank send each other on a machine level, in seconds; without a
// rank, those of the rank that has most.
struct DataParallelTime {
  std::optional<std::size_t> rank;
  std::size_t level = 0;
  double synchronization = 0;  // of the gradients of one micro-batch
  double once = 0;             // of those that are accumulated first, whatever the ZeRO stage
  double gather = 0;           // for the forward pass
  double gather_again = 0;     // and for the backward pass
};

// Sums over weights, by rank and level.
std::vector<DataParallelTime> by_rank(const std::vector<SharedWeight>& weights,
                                      const Pipeline& pipeline);

class WeightBounds {
 public:
  explicit WeightBounds(const Case& on);

  // On each device: what it holds between steps, and the gradients that it holds at the end of
  // one, of so many micro-batches.
  struct Stored {
    Bytes always;
    Bytes gradients;
  };
  [[nodiscard]] Stored stored(const Split& split, std::uint8_t zero,
                              std::int64_t micro_batches) const;
  // Of the rank that has most.
  [[nodiscard]] double update_time(const Split& split, std::uint8_t zero) const;
  // As if gradients and weights were each one collective, of tensors that are cut evenly.
  [[nodiscard]] DataParallelTime as_one_collective(const Split& split, bool is_sharded) const;

 private:
  void add_bytes(const Case& on);
  void add_updates(const Case& on);

  const machine::Machine& machine_;
  const machine::Digits& digits_;
  plan::Precision precision_;
  struct Held {
    Bytes weights;
    Bytes gradients;
    Bytes states;  // of the optimizer, and master copies
    void add(const Held& other, double share);
  };
  // Returns what each of so many devices stores at least that share all weights.
  [[nodiscard]] const Held& shared_by(std::int64_t devices) const;
  // Keys: shapes; none for embedding tables, each of which may be whole on one device.
  std::map<std::vector<std::int64_t>, Held> held_;
  mutable std::map<std::int64_t, Held> shares_;  // by devices
  struct Dense {
    Bytes weights;
    Bytes gradients;
    Bytes read_again;  // in the backward pass, of the weights: what is looked up is not
  };
  // Those that can be divided by so many devices; 1: all.
  [[nodiscard]] Dense divided_by(std::int64_t devices) const;
  // Without embedding tables whose gradients are summed as rows.
  std::map<std::vector<std::int64_t>, Dense> dense_;  // by shape
  double updates_ = 0;  // on one device, without tables of which rows are updated
};

}  // namespace tandem::search
