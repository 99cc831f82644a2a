// Proved lower bounds of the time and memory of each strategy of the grid, from its pass, its
// stages and its weights.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "search/grid/item.h"
#include "search/grid/weight_bounds.h"

namespace tandem::search {

struct Bounded {
  PassBound pass;
  bool known = false;  // whether `pass` is of this kind, not of a kind that takes no longer
  bool impossible = false;
};

class StrategyBounds {
 public:
  // Item::split indexes `splits`, PassKind::recompute indexes `recomputations`. `is_stale`: updates
  // come one step late. All arguments outlive the object.
  StrategyBounds(const Case& on, GridModel& model, bool is_stale, const std::vector<Split>& splits,
                 const std::vector<strategies::Recompute>& recomputations);

  // Returns the number of a kind of pass, Item::kind. `is_rough`: bounds a new kind at once,
  // without lowering it.
  std::uint32_t get_kind_number(const PassKind& kind, bool is_rough);
  [[nodiscard]] const PassKind& kind(std::uint32_t number) const { return kinds_[number]; }
  [[nodiscard]] const Bounded& pass(std::uint32_t number) const { return bounds_[number]; }
  // Returns the pass lowered as this kind, not scaled from one that takes no longer.
  const Bounded& get_close_bound(std::uint32_t number);
  // Returns null if the network cannot be divided into such stages.
  const Pipeline* get_pipeline(std::int64_t pp, std::int64_t stages_of_rank,
                               std::int64_t micro_batches);

  Bytes bound_memory(const Item& item);
  double bound_time(const Item& item);
  // Returns the step time of the schedule if each slot takes its bound.
  double bound_scheduled_time(const Item& item);
  // Returns a bound of the compute of a step summed over devices, in seconds; 0 if unknown.
  double bound_device_seconds();

 private:
  using LoadsKey = std::tuple<const Pipeline*, std::uint32_t, std::int64_t, bool>;

  Bounded compute_rough_bound(const PassKind& kind);
  Bounded compute_close_bound(const PassKind& kind);
  void record_device_seconds(const PassKind& base, const Bounded& bound);
  const Pipeline::Loads& get_loads(const Item& item, bool accumulates);
  predict::PassTime compute_send_times(const Item& item);
  const std::vector<DataParallelTime>& get_data_parallel_times(const Item& item);
  const Pipeline* get_pipeline(const Item& item) {
    return get_pipeline(splits_[item.split].pp, item.stages_of_rank, item.micro_batches);
  }

  const machine::Machine& machine_;
  const machine::Digits& digits_;
  std::int64_t batch_;
  GridModel& model_;
  bool is_stale_;
  const std::vector<Split>& splits_;
  const std::vector<strategies::Recompute>& recomputations_;
  WeightBounds weights_;
  std::map<PassKind, std::size_t> numbers_;
  std::vector<PassKind> kinds_;
  std::vector<Bounded> bounds_;  // by kind
  std::map<PassKind, Bounded> rough_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::unique_ptr<Pipeline>>
      pipelines_;
  // Keys: split, stages of a rank, whether weights are sharded, whether the kind is lowered.
  std::map<std::tuple<std::uint32_t, std::uint16_t, bool, bool>, std::vector<DataParallelTime>>
      data_parallel_times_;
  std::pair<std::tuple<const Pipeline*, std::uint32_t, bool>, Bytes> held_;
  predict::ScheduleTimes schedules_;
  std::array<std::pair<LoadsKey, Pipeline::Loads>, 2> last_loads_;  // by whether it accumulates
  // Keys: kind, ranks, stages of a rank, micro-batches, whether whole gradients accumulate.
  std::map<std::tuple<std::uint32_t, std::int64_t, std::uint16_t, std::int64_t, bool>, double>
      scheduled_times_;
  double device_seconds_ = std::numeric_limits<double>::infinity();
};

}  // namespace tandem::search
