#include "search/plain_grid.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "base/error.h"
#include "cost/collectives.h"
#include "search/least_memory.h"
#include "strategies/pipeline.h"
#include "strategies/recomputation.h"
#include "strategies/stages.h"

namespace tandem::search {

namespace {

using estimate::Cut;
using estimate::PipelineDivision;
using machine::DigitMask;
using strategies::Family;
using strategies::Setting;

// Strategies whose bounds are within this of the fastest that fits are evaluated: they are the
// alternatives that a plan is compared with, and an estimate may be off by as much.
constexpr double kNear = 1.03;

// Bytes of all weights together, as the bounds of memory need them.
struct StoredBytes {
  Bytes weights;
  Bytes gradients;
  Bytes states;  // of the optimizer, and master copies
  // Without embedding tables, whose gradients may be sparse.
  Bytes dense_weights;
  Bytes dense_gradients;
};

StoredBytes stored_bytes_of(const strategies::Problem& problem, plan::Optimizer optimizer,
                            const plan::Precision& precision) {
  const auto& model = problem.model;
  std::vector<bool> is_table(model.size());
  for (auto id : model.ids()) {
    for (auto i : model.inputs(id)) {
      if (problem.is_table(id)) is_table[i.index()] = true;
    }
  }
  StoredBytes out;
  for (auto id : model.ids()) {
    const auto& node = model.node(id);
    if (!is_weight(node)) continue;
    const auto whole = node.type.whole_bytes();
    out.weights += whole;
    if (!is_trained(node)) continue;
    const auto all = stored_bytes(node, optimizer, precision);
    const auto scale = size_of(precision.gradient(node.type.dtype)) / size_of(node.type.dtype);
    // Plain SGD may subtract a gradient at once.
    const auto gradient = optimizer == plan::Optimizer::kSgd ? Bytes{} : whole * scale;
    out.gradients += gradient;
    if (!is_table[id.index()]) {
      out.dense_weights += whole;
      out.dense_gradients += whole * scale;
    }
    out.states += all - whole - gradient;
  }
  return out;
}

// What strategies have in common that differ in their pipeline, data parallelism and ZeRO stage:
// how one micro-batch is computed by one tensor and context parallel group.
struct PassKind {
  DigitMask tensor = 0;
  DigitMask context = 0;
  bool sequence_parallel = false;
  std::int64_t micro_batch_size = 1;
  std::size_t recompute = 0;  // index into the recomputations
  Cut cut = Cut::kWhole;      // of the pipeline's division
  auto operator<=>(const PassKind&) const = default;
};

struct Bounded {
  estimate::PassBound pass;
  bool known = false;       // `pass` is of this kind, not of one that takes no longer
  bool impossible = false;  // no estimate
};

// One strategy of the grid: its kind of pass and what the rest of the devices do.
struct Item {
  std::uint32_t kind = 0;
  std::uint32_t split = 0;
  std::int64_t micro_batches = 1;
  std::uint16_t stages_of_rank = 1;
  std::uint8_t zero = 0;
  double bound = 0;
};

// How tensor, context, data parallelism and pipeline ranks share the devices.
struct Split {
  std::int64_t tp = 1, cp = 1, pp = 1, dp = 1;
  DigitMask tensor = 0, context = 0;
};

class Grid {
 public:
  Grid(const Case& on, Estimates& estimates, const GridOptions& options)
      : problem_(*on.problem),
        digits_(on.problem->digits),
        batch_(on.batch),
        options_(options),
        estimates_(estimates),
        limit_(on.limits[0]),
        machine_(*on.machine),
        stored_(stored_bytes_of(*on.problem, on.optimizer,
                                precision_of(on, {.family = Family::kMegatron}))),
        most_stages_(static_cast<std::int64_t>(strategies::cuts(*on.problem).size())),
        layers_(on.network->settings.has("layers") ? on.network->settings.size("layers") : 0) {
    find_recomputations();
    find_splits();
  }

  std::vector<Estimated> run() {
    // First what most often is best, so that the rest is pruned from the beginning.
    add_items([](const Split& split, std::int64_t stages_of_rank) {
      return split.cp == 1 && stages_of_rank <= 2;
    });
    evaluate();
    add_items([](const Split& split, std::int64_t stages_of_rank) {
      return split.cp > 1 || stages_of_rank > 2;
    });
    evaluate();
    return std::move(out_);
  }

 private:
  void find_recomputations() {
    std::vector<std::vector<bool>> seen;
    for (const auto* what : {"none", "selective", "products", "full"}) {
      auto again = strategies::recomputed(what, problem_);
      if (std::ranges::find(seen, again) != seen.end()) continue;
      seen.push_back(std::move(again));
      recomputations_.emplace_back(what);
    }
  }

  void find_splits() {
    const auto tensor_groups = strategies::tensor_groups(digits_);
    const bool has_sequence = options_.sequence && problem_.has_sequence();
    for (std::int64_t pp = 1; pp <= std::min(digits_.devices(), most_stages_); ++pp) {
      if (digits_.devices() % pp != 0 || (pp > 1 && !options_.pipeline)) continue;
      const auto ranks = strategies::rank_digits(digits_, pp);
      if (!ranks) continue;
      for (const auto& [tp, tensor] : tensor_groups) {
        if ((tensor & *ranks) != 0) continue;
        const auto left = digits_.devices() / pp / tp;
        for (std::int64_t cp = 1; cp <= (has_sequence ? left : 1); ++cp) {
          if (left % cp != 0 || batch_ % (left / cp) != 0) continue;
          const auto context = strategies::context_digits(digits_, cp, tensor | *ranks);
          if (!context) continue;
          splits_.push_back({tp, cp, pp, left / cp, tensor, *context});
        }
      }
    }
  }

  // Micro-batch sizes: powers of two, and all that a device has.
  [[nodiscard]] static std::vector<std::int64_t> micro_batch_sizes(std::int64_t local) {
    std::vector<std::int64_t> out;
    for (std::int64_t size = 1; size < local; size *= 2) {
      if (local % size == 0) out.push_back(size);
    }
    out.push_back(local);
    return out;
  }

  // Up to eight, and more where they divide the layers.
  [[nodiscard]] std::vector<std::int64_t> stages_of_a_rank(std::int64_t pp,
                                                           std::int64_t micro_batches) const {
    std::vector<std::int64_t> out = {1};
    if (pp == 1 || micro_batches % pp != 0) return out;
    constexpr std::int64_t kAlways = 8;
    for (std::int64_t v = 2; pp * v <= most_stages_; ++v) {
      if (v <= kAlways || (layers_ > 0 && layers_ % (pp * v) == 0)) out.push_back(v);
    }
    return out;
  }

  template <class Wanted>
  void add_items(const Wanted& wanted) {
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      const auto& split = splits_[s];
      const bool has_sequence = options_.sequence && split.tp > 1 && problem_.has_sequence();
      const auto local = batch_ / split.dp;
      for (const auto size : micro_batch_sizes(local)) {
        const auto micro_batches = local / size;
        for (const auto v : stages_of_a_rank(split.pp, micro_batches)) {
          if (!wanted(split, v)) continue;
          const auto* pipeline = pipeline_of(split.pp, v, micro_batches);
          if (pipeline == nullptr) continue;
          const auto cut = cut_of(*pipeline);
          for (const bool sp : {false, true}) {
            if (sp && !has_sequence) continue;
            for (std::size_t r = 0; r < recomputations_.size(); ++r) {
              const auto kind = kind_of({split.tensor, split.context, sp, size, r, cut}, s);
              for (std::uint8_t zero = 0; zero <= 3; ++zero) {
                add({kind, static_cast<std::uint32_t>(s), micro_batches,
                     static_cast<std::uint16_t>(v), zero});
              }
            }
          }
        }
      }
    }
  }

  void add(Item item) {
    const auto& split = splits_[item.split];
    if (item.zero > 0 && split.dp * split.cp == 1) return;
    if (memory_bound(item) > limit_) return;
    item.bound = time_bound(item);
    if (item.bound > kNear * best_) return;
    queue_.push(item);
  }

  // The number of the kind. `split`: where it first occurs.
  std::uint32_t kind_of(const PassKind& kind, std::size_t split) {
    const auto [at, is_new] = kind_numbers_.try_emplace(kind, kinds_.size());
    if (is_new) {
      kinds_.push_back(kind);
      bounds_.push_back(base_bound(kind, split));
    }
    return static_cast<std::uint32_t>(at->second);
  }

  // Before a kind is lowered: a sample takes least in the largest micro-batch with nothing
  // recomputed.
  Bounded base_bound(const PassKind& kind, std::size_t split) {
    auto base = kind;
    base.micro_batch_size = largest_micro_batch();
    base.recompute = 0;
    const auto [at, is_new] = base_bounds_.try_emplace(base);
    if (is_new) at->second = bounded(base, splits_[split]);
    auto out = at->second;
    out.known = kind == base;
    if (out.known) return out;
    const auto scale =
        static_cast<double>(kind.micro_batch_size) / static_cast<double>(base.micro_batch_size);
    auto& pass = out.pass;
    for (auto& load : pass.loads) load *= scale;
    for (auto& time : pass.compute) time *= scale;
    pass.exposed *= scale;
    pass.saved = {};
    return out;
  }

  [[nodiscard]] std::int64_t largest_micro_batch() const { return batch_; }

  // Lowers it, on as few devices as it needs.
  Bounded bounded(const PassKind& kind, const Split& split) {
    Setting setting = {.family = Family::kMegatron};
    setting.tp = {split.tp};
    setting.cp = split.cp;
    setting.dp = digits_.devices() / split.tp / split.cp;
    setting.sp = kind.sequence_parallel;
    setting.recompute = recomputations_[kind.recompute];
    const auto bound =
        estimates_.bound_pass(setting, kind.micro_batch_size * *setting.dp, kind.cut);
    if (!bound) return {.pass = {}, .known = true, .impossible = true};
    return {.pass = *bound, .known = true};
  }

  // A device holds at least its share of what is stored, and the first rank what its forward passes
  // save before its first backward pass.
  Bytes memory_bound(const Item& item) {
    const auto& saved = bounds_[item.kind].pass.saved;
    return stored_by_device(item) + saved * static_cast<double>(pipeline_of(item)->in_flight);
  }

  [[nodiscard]] Bytes stored_by_device(const Item& item) const {
    const auto& split = splits_[item.split];
    const auto group = static_cast<double>(split.tp * split.pp);
    const auto all = group * static_cast<double>(split.dp * split.cp);
    switch (item.zero) {
      case 0:
        return (stored_.weights + stored_.gradients + stored_.states) * (1 / group);
      case 1:
      case 2:
        return stored_.weights * (1 / group) + stored_.states * (1 / all);
      default:
        return (stored_.weights + stored_.states) * (1 / all);
    }
  }

  // No rank takes less than its stages, and the last one begins when all others have passed their
  // first micro-batch forward, and they end after it with the last one's backward pass. No stream
  // has more than the step.
  double time_bound(const Item& item) {
    const auto& split = splits_[item.split];
    const auto& pass = bounds_[item.kind].pass;
    const auto micro_batches = static_cast<double>(item.micro_batches);
    const auto ranks = static_cast<std::size_t>(split.pp);
    const auto& pipeline = *pipeline_of(item);
    const auto& division = *pipeline.division;
    times_of_class_.clear();
    for (std::size_t c = 0; c < division.classes.size(); ++c) {
      double time =
          static_cast<double>(std::max<std::int64_t>(0, pipeline.layers[c] - 1)) * pass.exposed;
      for (std::size_t r = 0; r < pass.compute.size(); ++r) {
        time += static_cast<double>(division.classes[c][r]) * pass.compute[r];
      }
      times_of_class_.push_back(time);
    }
    double busiest = 0;
    double last = 0;
    double others = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      last = 0;
      for (auto s = rank; s < division.class_of_stage.size(); s += ranks) {
        last += times_of_class_[division.class_of_stage[s]];
      }
      busiest = std::max(busiest, last);
      if (rank + 1 < ranks) others += times_of_class_[division.class_of_stage[rank]];
    }
    double out = std::max(micro_batches * busiest, micro_batches * last + others);
    const auto on_level = [&](std::size_t level) {
      return micro_batches * pass.loads[level + 1] / static_cast<double>(ranks);
    };
    // What a stage that ends inside a layer recomputes need not be all of it.
    if (kinds_[item.kind].cut == Cut::kWhole) {
      for (std::size_t l = 0; l < machine_.levels.size(); ++l) out = std::max(out, on_level(l));
    }
    if (split.dp * split.cp == 1) return out;
    const auto level = cost::outermost_level(digits_, shared_digits(split));
    const bool is_whole = kinds_[item.kind].cut == Cut::kWhole;
    return std::max(out, (is_whole ? on_level(level) : 0) + data_parallel_time(item));
  }

  [[nodiscard]] DigitMask shared_digits(const Split& split) const {
    const auto ranks = strategies::rank_digits(digits_, split.pp).value();
    return digits_.all() & ~(split.tensor | ranks);
  }

  // Of gradients and weights that are stored sharded: as if each were one collective.
  double data_parallel_time(const Item& item) {
    const auto& split = splits_[item.split];
    const auto [at, is_new] = data_parallel_times_.try_emplace(item.split);
    auto& times = at->second;
    if (is_new) {
      using machine::Step;
      const auto group = shared_digits(split);
      const double share = 1 / static_cast<double>(split.tp * split.pp);
      const auto time = [&](Step step, Bytes bytes) {
        return cost::collective_time(machine_, digits_, step, group, bytes * share).value;
      };
      times = {time(Step::kAllReduce, stored_.dense_gradients),
               time(Step::kReduceScatter, stored_.dense_gradients),
               time(Step::kAllGather, stored_.dense_weights)};
    }
    const auto micro_batches = static_cast<double>(item.micro_batches);
    switch (item.zero) {
      case 0:
        return std::min(times.all_reduce, times.reduce_scatter + times.all_gather);
      case 1:
        return times.reduce_scatter + times.all_gather;
      case 2:
        return micro_batches * times.reduce_scatter + times.all_gather;
      default:
        return micro_batches * (times.reduce_scatter + times.all_gather);
    }
  }

  // Null where it cannot be divided so.
  const PipelineDivision* pipeline_of(std::int64_t pp, std::int64_t stages_of_rank,
                                      std::int64_t micro_batches) {
    // More of them change nothing before the first backward pass.
    micro_batches = std::min(micro_batches, 4 * pp);
    const auto [at, is_new] = pipelines_.try_emplace({pp, stages_of_rank, micro_batches});
    if (is_new) at->second = estimates_.divide(pp, stages_of_rank, micro_batches);
    return at->second ? &*at->second : nullptr;
  }
  const PipelineDivision* pipeline_of(const Item& item) {
    return pipeline_of(splits_[item.split].pp, item.stages_of_rank, item.micro_batches);
  }
  static Cut cut_of(const PipelineDivision& pipeline) {
    const bool is_whole = pipeline.division->classes[0].size() == estimate::kSections;
    return is_whole ? Cut::kWhole : Cut::kInPieces;
  }

  void evaluate() {
    while (!queue_.empty() && !(options_.stop && options_.stop())) {
      auto item = queue_.top();
      queue_.pop();
      if (item.bound > kNear * best_) {
        queue_ = {};
        return;
      }
      auto& bound = bounds_[item.kind];
      if (!bound.known) bound = bounded(kinds_[item.kind], splits_[item.split]);
      if (const auto now = time_bound(item); now > item.bound) {
        item.bound = now;
        queue_.push(item);
        continue;
      }
      if (!needs_too_much(item) && memory_bound(item) <= limit_) evaluate(item);
    }
  }

  // More samples at once need no less memory.
  using Sizeless = std::tuple<std::uint32_t, bool, std::size_t, std::uint16_t, std::uint8_t>;
  [[nodiscard]] Sizeless without_size(const Item& item) const {
    const auto& kind = kinds_[item.kind];
    return {item.split, kind.sequence_parallel, kind.recompute, item.stages_of_rank, item.zero};
  }
  [[nodiscard]] bool needs_too_much(const Item& item) const {
    const auto at = too_large_.find(without_size(item));
    return at != too_large_.end() && kinds_[item.kind].micro_batch_size >= at->second;
  }

  void evaluate(const Item& item) {
    const auto setting = setting_of(item);
    if (options_.allowed && !is_allowed(item, setting)) return;
    Estimated made{setting, std::nullopt};
    try {
      made.point = estimates_.point(setting);
    } catch (const UserError&) {
      return;
    }
    if (!made.point) return;
    if (made.point->feasible) {
      best_ = std::min(best_, made.point->simulation.iteration.value);
    } else {
      auto& size =
          too_large_.try_emplace(without_size(item), std::numeric_limits<std::int64_t>::max())
              .first->second;
      size = std::min(size, kinds_[item.kind].micro_batch_size);
    }
    out_.push_back(std::move(made));
  }

  // Strategies of one split use the same dimensions.
  bool is_allowed(const Item& item, const Setting& setting) {
    const auto [at, is_new] =
        allowed_.try_emplace({item.split, kinds_[item.kind].sequence_parallel});
    if (is_new) at->second = options_.allowed(setting);
    return at->second;
  }

  [[nodiscard]] Setting setting_of(const Item& item) const {
    const auto& split = splits_[item.split];
    const auto& kind = kinds_[item.kind];
    Setting out;
    out.recompute = recomputations_[kind.recompute];
    if (item.micro_batches > 1 || split.pp > 1) out.micro = item.micro_batches;
    if (split.tp * split.cp * split.pp == 1) {
      out.family = item.zero == 0   ? Family::kDp
                   : item.zero == 3 ? Family::kFsdp
                                    : Family::kDeepspeed;
      if (out.family == Family::kDeepspeed) out.zero = item.zero;
      return out;
    }
    out.family = Family::kMegatron;
    out.tp = {split.tp};
    out.dp = split.dp;
    out.cp = split.cp;
    out.pp = split.pp;
    out.sp = kind.sequence_parallel;
    out.interleave = item.stages_of_rank;
    if (item.zero > 0) out.zero = item.zero;
    return out;
  }

  struct LowestBoundFirst {
    // Of equal bounds the simpler first.
    static auto key(const Item& i) {
      return std::tuple(i.bound, i.split, i.stages_of_rank, i.zero, i.kind);
    }
    bool operator()(const Item& a, const Item& b) const { return key(a) > key(b); }
  };

  const strategies::Problem& problem_;
  const machine::Digits& digits_;
  std::int64_t batch_;
  const GridOptions& options_;
  Estimates& estimates_;
  Bytes limit_;
  const machine::Machine& machine_;
  StoredBytes stored_;
  std::int64_t most_stages_;
  std::int64_t layers_;
  std::vector<std::string> recomputations_;
  std::vector<Split> splits_;
  std::map<PassKind, std::size_t> kind_numbers_;
  std::vector<PassKind> kinds_;
  std::vector<Bounded> bounds_;  // by kind
  std::map<PassKind, Bounded> base_bounds_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::optional<PipelineDivision>>
      pipelines_;
  std::vector<double> times_of_class_;  // of what is being bounded
  struct DataParallelTimes {
    double all_reduce, reduce_scatter, all_gather;
  };
  std::map<std::uint32_t, DataParallelTimes> data_parallel_times_;  // by split
  std::map<Sizeless, std::int64_t> too_large_;  // the smallest micro-batch that is known to be
  std::map<std::pair<std::uint32_t, bool>, bool> allowed_;
  std::priority_queue<Item, std::vector<Item>, LowestBoundFirst> queue_;
  double best_ = std::numeric_limits<double>::infinity();
  std::vector<Estimated> out_;
};

}  // namespace

std::vector<Estimated> evaluate_grid(const Case& on, Estimates& estimates,
                                     const GridOptions& options) {
  return Grid(on, estimates, options).run();
}

}  // namespace tandem::search
