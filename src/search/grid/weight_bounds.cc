#include "search/grid/weight_bounds.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "predict/collectives.h"
#include "predict/task_work.h"
#include "search/estimates.h"
#include "search/least_memory.h"

namespace tandem::search {

namespace {

// Returns, by node, whether it is an embedding table.
std::vector<bool> find_tables(const strategies::Problem& problem) {
  std::vector<bool> out(problem.model.size());
  for (auto id : problem.model.ids()) {
    for (auto i : problem.model.inputs(id)) {
      if (problem.is_table(id)) out[i.index()] = true;
    }
  }
  return out;
}

// Returns, by node, whether it is read with a dimension along the batch. Data parallel devices hold
// parts of such a weight.
std::vector<bool> find_read_along_batch(const strategies::Problem& problem) {
  std::vector<bool> out(problem.model.size());
  for (auto id : problem.model.ids()) {
    const auto& node = problem.nodes[id.index()];
    const auto batch = node.batch();
    if (!batch) continue;
    const auto inputs = problem.model.inputs(id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (node.signature.map.find_input_dim(i, *batch) >= 0) out[inputs[i].index()] = true;
    }
  }
  return out;
}

}  // namespace

std::vector<DataParallelTime> sum_by_rank(const std::vector<SharedWeight>& weights,
                                          const Pipeline& pipeline) {
  std::map<std::pair<std::size_t, std::size_t>, DataParallelTime> sums;
  for (const auto& weight : weights) {
    const auto rank = pipeline.get_rank(weight.unit);
    auto& sum = sums[{rank, weight.level}];
    sum.rank = rank;
    sum.level = weight.level;
    (weight.is_sharded ? sum.synchronization : sum.once) += weight.synchronization;
    sum.gather += weight.gather;
    sum.regather += weight.regather;
  }
  std::vector<DataParallelTime> out;
  out.reserve(sums.size());
  for (const auto& [key, sum] : sums) out.push_back(sum);
  return out;
}

WeightBounds::WeightBounds(const Case& on)
    : machine_(*on.machine),
      digits_(on.problem->digits),
      precision_(get_precision(on, {.family = strategies::Family::kMegatron})) {
  add_bytes(on);
  add_updates(on);
}

void WeightBounds::add_bytes(const Case& on) {
  const auto& model = on.problem->model;
  const bool sums_rows =
      machine_.device.software.sums_rows && on.optimizer == plan::Optimizer::kSgd;
  const auto is_table = find_tables(*on.problem);
  const auto follows_batch = find_read_along_batch(*on.problem);
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!is_weight(node) || follows_batch[id.index()]) continue;
    const auto whole = node.type.whole_bytes();
    const auto& sizes = node.type.shape.sizes;
    const std::vector<std::int64_t> shape(sizes.begin(), sizes.end());
    auto& held = held_[is_table[id.index()] ? std::vector<std::int64_t>{} : shape];
    held.weights += whole;
    if (!is_trained(node)) continue;
    const auto all = compute_stored_bytes(node, on.optimizer, precision_);
    const auto scale =
        get_element_size(precision_.gradient(node.type.dtype)) / get_element_size(node.type.dtype);
    // Plain SGD can subtract a gradient as soon as it is computed.
    const auto gradient = on.optimizer == plan::Optimizer::kSgd ? Bytes{} : whole * scale;
    held.gradients += gradient;
    if (!sums_rows || !is_table[id.index()]) {
      auto& dense = dense_[shape];
      dense.weights += whole;
      if (!is_table[id.index()]) dense.read_by_backward += whole;
      dense.gradients += whole * scale;
    }
    held.states += all - whole - gradient;
  }
}

void WeightBounds::add_updates(const Case& on) {
  if (machine_.device.software.updates_in_matmuls) return;
  const auto& model = on.problem->model;
  const auto follows_batch = find_read_along_batch(*on.problem);
  const bool updates_rows = on.optimizer == plan::Optimizer::kSgd;
  const auto is_table = find_tables(*on.problem);
  std::map<DType, double> elements;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!is_weight(node) || !is_trained(node) || (updates_rows && is_table[id.index()])) continue;
    if (follows_batch[id.index()]) continue;
    elements[node.type.dtype] += node.type.whole_bytes() / get_element_size(node.type.dtype);
  }
  for (const auto& of_type : elements) {
    const auto dtype = of_type.first;
    const auto count = of_type.second;
    const auto time_on = [&](const machine::Device& device) {
      auto work = predict::update_work(count, dtype, on.optimizer, precision_, device.software);
      work.kernels = 0;
      work.kind = 0;
      return predict::task_time(device, work, dtype).value;
    };
    double least = machine_.groups.empty() ? time_on(machine_.device)
                                           : std::numeric_limits<double>::infinity();
    for (const auto& group : machine_.groups) least = std::min(least, time_on(group.device));
    updates_ += least;
  }
}

void WeightBounds::WeightMemory::add(const WeightMemory& other, double share) {
  weights += other.weights * share;
  gradients += other.gradients * share;
  states += other.states * share;
}

namespace {

// Returns the most parts that a tensor can be divided into on `devices` devices. A prime factor of
// `devices` divides dimensions that are multiples of it. Example: 6144 x 16384 (2^11 3 x 2^14) on
// 90 devices (2 3^2 5) has 2 x 3 parts, each on 15 devices.
std::int64_t count_parts(const std::vector<std::int64_t>& shape, std::int64_t devices) {
  std::int64_t out = 1;
  const auto cut_by = [&](std::int64_t prime, std::int64_t times) {
    for (auto size : shape) {
      for (; times > 0 && size > 0 && size % prime == 0; size /= prime, --times) out *= prime;
    }
  };
  for (std::int64_t prime = 2; devices > 1; ++prime) {
    if (prime * prime > devices) prime = devices;
    std::int64_t times = 0;
    for (; devices % prime == 0; devices /= prime) ++times;
    if (times > 0) cut_by(prime, times);
  }
  return out;
}

}  // namespace

const WeightBounds::WeightMemory& WeightBounds::get_memory_share(std::int64_t devices) const {
  const auto [at, is_new] = shares_.try_emplace(devices);
  if (!is_new) return at->second;
  for (const auto& [shape, held] : held_) {
    const auto parts = shape.empty() ? devices : count_parts(shape, devices);
    at->second.add(held, 1 / static_cast<double>(parts));
  }
  return at->second;
}

// ZeRO-1 accumulates whole gradients, ZeRO-2 and ZeRO-3 shards. Context parallel devices may hold
// only part of the gradient of a weight with a sequence dimension, such as position embeddings.
WeightBounds::Stored WeightBounds::bound_stored(const Split& split, std::uint8_t zero,
                                                std::int64_t micro_batches) const {
  const auto of_rank = 1 / static_cast<double>(split.pp);
  const auto& sharded = get_memory_share(digits_.devices() / split.pp);
  if (split.ep > 1 || zero == 3) return {(sharded.weights + sharded.states) * of_rank, {}};
  const auto& whole = get_memory_share(split.tp);
  const bool is_whole = zero == 0 || (zero == 1 && micro_batches > 1);
  const auto states = zero == 0 ? whole.states : sharded.states;
  const auto of_context = of_rank / static_cast<double>(split.cp);
  return {.always = (whole.weights + states) * of_rank,
          .gradients = is_whole ? whole.gradients * of_context : Bytes{}};
}

double WeightBounds::bound_update_time(const Split& split, std::uint8_t zero) const {
  const bool is_sharded = zero > 0 || split.ep > 1;
  return updates_ / static_cast<double>(is_sharded ? digits_.devices() : split.tp * split.pp);
}

WeightBounds::DenseWeights WeightBounds::sum_divisible_by(std::int64_t devices) const {
  DenseWeights out;
  for (const auto& [sizes, dense] : dense_) {
    const auto divides = [&](std::int64_t size) { return size % devices == 0; };
    if (devices > 1 && std::ranges::none_of(sizes, divides)) continue;
    out.weights += dense.weights;
    out.gradients += dense.gradients;
    out.read_by_backward += dense.read_by_backward;
  }
  return out;
}

DataParallelTime WeightBounds::time_as_one_collective(const Split& split, bool is_sharded) const {
  using machine::Step;
  const auto group = split.data | split.context;
  const double share = 1 / static_cast<double>(split.tp * split.pp);
  const auto time = [&](Step step, Bytes bytes) {
    return predict::collective_time(machine_, digits_, step, group, bytes * share).value;
  };
  // A gradient that the group cannot divide is all-reduced, perhaps in shards over part of the
  // group.
  const auto reduce = [&](Bytes bytes) {
    return std::min(time(Step::kAllReduce, bytes), time(Step::kReduceScatter, bytes));
  };
  const auto all = sum_divisible_by(1);
  DataParallelTime out{.rank = {}, .level = predict::find_outermost_level(digits_, group)};
  if (!is_sharded) {
    out.once =
        std::min(time(Step::kAllReduce, all.gradients),
                 time(Step::kReduceScatter, all.gradients) + time(Step::kAllGather, all.weights));
    return out;
  }
  const auto sharded = sum_divisible_by(split.dp * split.cp);
  if (sharded.weights > Bytes{}) {
    // The backward pass regathers all but the last weights.
    constexpr double kAgain = 0.8;
    out.synchronization = time(Step::kReduceScatter, sharded.gradients);
    out.gather = time(Step::kAllGather, sharded.weights);
    if (sharded.read_by_backward > Bytes{}) {
      out.regather = kAgain * time(Step::kAllGather, sharded.read_by_backward);
    }
  }
  if (all.gradients > sharded.gradients) out.once = reduce(all.gradients - sharded.gradients);
  return out;
}

}  // namespace tandem::search
