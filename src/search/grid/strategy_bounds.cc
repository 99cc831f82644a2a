#include "search/grid/strategy_bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "predict/collectives.h"

namespace tandem::search {

StrategyBounds::StrategyBounds(const Case& on, GridModel& model, bool is_stale,
                               const std::vector<Split>& splits,
                               const std::vector<strategies::Recompute>& recomputations)
    : machine_(*on.machine),
      digits_(on.problem->digits),
      batch_(on.batch),
      model_(model),
      is_stale_(is_stale),
      splits_(splits),
      recomputations_(recomputations),
      weights_(on) {}

std::uint32_t StrategyBounds::get_kind_number(const PassKind& kind, bool is_rough) {
  const auto [at, is_new] = numbers_.try_emplace(kind, kinds_.size());
  if (is_new) {
    kinds_.push_back(kind);
    bounds_.push_back(is_rough ? compute_rough_bound(kind) : Bounded{});
  }
  return static_cast<std::uint32_t>(at->second);
}

// Scales the bound of the largest micro-batch without recomputation. A sample takes the least time
// there.
Bounded StrategyBounds::compute_rough_bound(const PassKind& kind) {
  auto base = kind;
  base.micro_batch_size = kind.ep > 1 ? batch_ / digits_.devices() : batch_;
  base.recompute = 0;
  const auto [at, is_new] = rough_.try_emplace(base);
  if (is_new) {
    at->second = compute_close_bound(base);
    record_device_seconds(base, at->second);
  }
  auto out = at->second;
  // If the largest micro-batch is impossible, smaller ones may be possible. They have no bound yet.
  if (out.impossible && kind != base) return {};
  out.known = kind == base;
  if (out.known) return out;
  const auto scale =
      static_cast<double>(kind.micro_batch_size) / static_cast<double>(base.micro_batch_size);
  auto& pass = out.pass;
  pass.compute *= scale;
  for (auto& load : pass.levels) load *= scale;
  for (auto& time : pass.units) time *= scale;
  for (auto& time : pass.recomputed) time *= scale;
  std::ranges::fill(pass.accumulation, 0.0);
  for (auto& time : pass.early) time *= scale;
  // Smaller micro-batches may have more compute between two operators.
  std::erase_if(pass.waits, [](const auto& wait) { return !wait.is_adjacent; });
  for (auto& wait : pass.waits) wait.seconds *= scale;
  pass.following *= scale;
  pass.sent = pass.sent * scale;
  pass.saved = {};
  pass.results.clear();
  return out;
}

// Includes the bound of a single device, which wastes nothing.
double StrategyBounds::bound_device_seconds() {
  (void)compute_rough_bound({.micro_batch_size = batch_});
  return std::isinf(device_seconds_) ? 0 : device_seconds_;
}

// A sample takes the least time in the largest micro-batch.
void StrategyBounds::record_device_seconds(const PassKind& base, const Bounded& bound) {
  if (bound.impossible || base.in_pieces || bound.pass.units.empty()) return;
  const auto all = get_pipeline(1, 1, 1)->compute_loads(bound.pass, 0).ranks[0];
  const auto devices = static_cast<double>(base.tp * base.cp);
  device_seconds_ = std::min(device_seconds_, devices * all);
}

const Bounded& StrategyBounds::get_close_bound(std::uint32_t number) {
  auto& out = bounds_[number];
  if (!out.known) out = compute_close_bound(kinds_[number]);
  return out;
}

Bounded StrategyBounds::compute_close_bound(const PassKind& kind) {
  auto bound = model_.bound_pass(kind, recomputations_[kind.recompute]);
  if (!bound) return {.pass = {}, .known = true, .impossible = true};
  return {.pass = std::move(*bound), .known = true};
}

// A device holds at least its share of stored state, and what its forward passes save before its
// first backward pass. With enough micro-batches it saves as much again once all gradients exist.
Bytes StrategyBounds::bound_memory(const Item& item) {
  const auto& split = splits_[item.split];
  const auto [always, gradients] = weights_.bound_stored(split, item.zero, item.micro_batches);
  const auto* pipeline = get_pipeline(item);
  const auto& bound = bounds_[item.kind];
  const std::tuple now(pipeline, item.kind, bound.known);
  if (held_.first != now) held_ = {now, pipeline->compute_saved_bytes(bound.pass)};
  const auto held = held_.second;
  constexpr std::int64_t kRounds = 3;  // a rank with several stages takes three rounds
  const bool is_repeated = item.stages_of_rank == 1 ? item.micro_batches > split.pp
                                                    : item.micro_batches >= kRounds * split.pp;
  return always + (is_repeated ? gradients + held : std::max(gradients, held));
}

// Takes the maximum of several bounds. A rank takes at least the time of its stages, then of its
// weight updates. The last rank begins when all others have passed their first micro-batch forward,
// and they end after it with that micro-batch's backward pass. No machine level has more
// communication than there is time. Gradients are synchronized in the last micro-batch.
//
// Example: 4 micro-batches on 2 ranks that take 3 ms for each, and 0.1 ms for each send. The bound
// is 4 x 3 ms of the last rank + 3 ms of the first + 0.2 ms for a send there and back: 15.2 ms.
double StrategyBounds::bound_time(const Item& item) {
  const auto& split = splits_[item.split];
  const auto& pass = bounds_[item.kind].pass;
  const auto micro_batches = static_cast<double>(item.micro_batches);
  // ZeRO-2 and ZeRO-3 accumulate shards.
  const bool accumulates = item.micro_batches > 1 && item.zero < 2;
  const auto& loads = get_loads(item, accumulates);
  const auto mean =
      std::accumulate(loads.ranks.begin(), loads.ranks.end(), 0.0) / static_cast<double>(split.pp);
  double out = std::max(micro_batches * std::ranges::max(loads.ranks),
                        micro_batches * mean + weights_.bound_update_time(split, item.zero));
  const auto on_level = [&](std::size_t level) {
    if (level >= pass.levels.size()) return 0.0;
    return micro_batches * pass.levels[level] / static_cast<double>(split.pp);
  };
  for (std::size_t l = 0; l < pass.levels.size(); ++l) out = std::max(out, on_level(l));
  if (split.pp > 1) {
    const auto sent = compute_send_times(item);
    const auto send = sent.forward + sent.backward;
    const auto sends =
        static_cast<double>(item.stages_of_rank) - 0.5;  // the first sends no gradient
    const auto ranks_before = static_cast<double>(split.pp - 1);
    out = std::max(out, micro_batches * sends * send);
    // Consecutive steps of stale pipelines overlap.
    const auto others = is_stale_ ? 0 : loads.others + ranks_before * send;
    out = std::max(out, micro_batches * loads.ranks.back() + others);
  }
  if (split.dp * split.cp == 1 || split.ep > 1) return out;
  // A rank's first stage may run its last micro-batch after those of its other stages. It may also
  // gather its last weights after their first micro-batches.
  const auto left = item.stages_of_rank == 1 ? 1 : split.pp;
  const auto before = static_cast<double>(std::max(item.micro_batches - left, std::int64_t{0}));
  std::vector<double> reduced(machine_.levels.size());  // by level, mean of all ranks
  for (const auto& [rank, level, each, once, gather, regather] : get_data_parallel_times(item)) {
    const auto sum = each + once;
    const auto sums = item.zero < 2 ? sum : micro_batches * each + once;
    const auto gathers = item.zero < 3 ? gather : micro_batches * (gather + regather);
    const auto load = rank ? loads.ranks[*rank] : mean;
    out = std::max(out, on_level(level) + sums + gathers);
    if (is_stale_) continue;
    out = std::max(out, before * load + sum + (item.zero < 3 ? gather : 0));
    reduced[level] += rank ? each / static_cast<double>(split.pp) : each;
  }
  // Shards accumulate in every micro-batch except the first, each right after its reduction and
  // before more compute. Other communication may overlap that.
  if (item.zero >= 2 && !is_stale_) {
    out = std::max(out, micro_batches * pass.compute / static_cast<double>(split.pp) +
                            (micro_batches - 1) * std::ranges::max(reduced));
  }
  return out;
}

// Keeps only the last loads, because strategies that differ in their ZeRO stage are adjacent.
const Pipeline::Loads& StrategyBounds::get_loads(const Item& item, bool accumulates) {
  const auto* pipeline = get_pipeline(item);
  const auto& bound = bounds_[item.kind];
  const LoadsKey key{pipeline, item.kind, item.micro_batches, bound.known};
  auto& last = last_loads_[accumulates ? 1 : 0];
  if (last.first != key) {
    // The first gradients are stored without accumulation.
    const auto some = static_cast<double>(item.micro_batches - 1);
    last = {key, pipeline->compute_loads(bound.pass, accumulates ? some / (some + 1) : 0)};
  }
  return last.second;
}

// Returns the step time of the schedule if each slot takes its bound. Strategies that differ in
// their ZeRO stage share it, except for whether whole gradients accumulate.
double StrategyBounds::bound_scheduled_time(const Item& item) {
  const auto& split = splits_[item.split];
  if (split.pp == 1 || bounds_[item.kind].pass.forward.empty()) return 0;
  const bool accumulates = item.zero < 2;
  const auto [at, is_new] = scheduled_times_.try_emplace(
      {item.kind, split.pp, item.stages_of_rank, item.micro_batches, accumulates});
  if (is_new) {
    plan::Schedule schedule;
    schedule.stages = split.pp * item.stages_of_rank;
    schedule.micro_batches = item.micro_batches;
    if (item.stages_of_rank > 1) schedule.order = plan::Order::kInterleaved;
    const auto stages = get_pipeline(item)->compute_times(bounds_[item.kind].pass,
                                                          accumulates && item.micro_batches > 1);
    at->second = schedules_.step_time(schedule, split.pp, stages, compute_send_times(item));
  }
  return at->second;
}

// Returns the times of sending an activation to the next rank and a gradient back, between the
// ranks where that is fastest.
predict::PassTime StrategyBounds::compute_send_times(const Item& item) {
  const auto& split = splits_[item.split];
  const auto& pass = bounds_[item.kind].pass;
  if (pass.sent == Bytes{}) return {};
  // Ranks differ at least in the innermost of their digits.
  const auto across = std::bit_floor(split.ranks);
  const auto time = [&](bool copied) {
    return predict::send_time(machine_, digits_, across, copied ? split.tensor : 0, pass.sent)
        .value;
  };
  return {time(pass.copied), time(pass.gradient_copied)};
}

// Returns the collectives of gradients and weights. Once the kind is lowered, each weight has its
// own; before that, all share one, as if tensors were divided evenly.
const std::vector<DataParallelTime>& StrategyBounds::get_data_parallel_times(const Item& item) {
  const auto& split = splits_[item.split];
  const bool is_sharded = item.zero > 0;
  const bool is_close = bounds_[item.kind].known;
  const auto stages_of_rank = is_close ? item.stages_of_rank : std::uint16_t{1};
  const auto [at, is_new] =
      data_parallel_times_.try_emplace({item.split, stages_of_rank, is_sharded, is_close});
  auto& times = at->second;
  if (!is_new) return times;
  if (is_close) {
    if (const auto weights =
            model_.list_shared_weights(kinds_[item.kind], split.ranks, is_sharded)) {
      return times = sum_by_rank(*weights, *get_pipeline(item));
    }
  }
  times.push_back(weights_.time_as_one_collective(split, is_sharded));
  return times;
}

const Pipeline* StrategyBounds::get_pipeline(std::int64_t pp, std::int64_t stages_of_rank,
                                             std::int64_t micro_batches) {
  // More micro-batches change nothing before the first backward pass.
  micro_batches = std::min(micro_batches, 4 * pp);
  const auto [at, is_new] = pipelines_.try_emplace({pp, stages_of_rank, micro_batches});
  if (is_new) at->second = model_.divide(pp, stages_of_rank, micro_batches);
  return at->second.get();
}

}  // namespace tandem::search
