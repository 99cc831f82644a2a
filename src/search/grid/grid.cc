#include "search/grid/grid.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "base/error.h"
#include "predict/collectives.h"
#include "search/bounds.h"
#include "search/grid/item.h"
#include "search/grid/split.h"
#include "search/grid/weight_bounds.h"
#include "search/limits.h"
#include "strategies/recomputation.h"
#include "strategies/stages.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Setting;

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Bounded {
  PassBound pass;
  bool known = false;  // `pass` is of this kind, not of one that takes no longer
  bool impossible = false;
};

class Grid {
 public:
  Grid(const Case& on, GridModel& model, const GridOptions& options)
      : problem_(*on.problem),
        digits_(on.problem->digits),
        batch_(on.batch),
        options_(options),
        model_(model),
        limit_(std::ranges::max(on.limits)),
        machine_(*on.machine),
        weights_(on),
        most_stages_(static_cast<std::int64_t>(strategies::cuts(*on.problem).size())),
        most_micro_batches_(most_micro_batches(on.problem->model)),
        layers_(layers_of(on)),
        near_(options.near),
        best_(options.beat) {
    for (const auto& known : options.known) {
      if (known.feasible) best_ = std::min(best_, known.time().value);
    }
    find_recomputations();
    splits_ =
        splits_of(problem_, batch_,
                  {.stages = options.pipeline ? most_stages_ : 1, .sequence = options.sequence});
  }

  GridResult run() {
    if (options_.smallest) {
      evaluate_smallest();
      return std::move(out_);
    }
    evaluate_all();
    if (options_.each_family && best_ < kNever) evaluate_families();
    out_.others = others_;
    out_.device_seconds = device_seconds();
    return std::move(out_);
  }

 private:
  static std::int64_t layers_of(const Case& on) {
    const bool has_layers = on.network != nullptr && on.network->settings.has("layers");
    return has_layers ? on.network->settings.size("layers") : 0;
  }

  void evaluate_all() {
    // First what most often is best, so that the rest is pruned from the beginning.
    add_items([](const Split& split, std::int64_t stages_of_rank) {
      return split.cp == 1 && stages_of_rank <= 2;
    });
    evaluate();
    add_items([](const Split& split, std::int64_t stages_of_rank) {
      return split.cp > 1 || stages_of_rank > 2;
    });
    evaluate();
    if (best_ == kNever) evaluate_smallest();
  }

  // The same, pruned by the fastest of one family alone.
  void evaluate_families() {
    near_ = 1;
    const auto fastest = best_;
    for (const auto family :
         {Family::kDp, Family::kFsdp, Family::kDeepspeed, Family::kEp, Family::kMegatron}) {
      family_ = family;
      best_ = kNever;
      for (const auto& e : out_.evaluated) {
        if (!e.feasible || e.setting->family != family) continue;
        best_ = std::min(best_, e.time().value);
      }
      if (best_ > fastest || best_ == kNever) evaluate_all();
    }
    best_ = fastest;
  }

  void find_recomputations() {
    std::vector<std::vector<bool>> seen;
    for (const auto* what : {"none", "selective", "save_matmuls", "full"}) {
      auto again = strategies::recomputed(what, problem_);
      if (std::ranges::find(seen, again) != seen.end()) continue;
      seen.push_back(std::move(again));
      recomputations_.emplace_back(what);
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
    for (std::int64_t v = 2; pp * v <= most_stages_; ++v) {
      if (v <= limits::kMostUnevenVirtualStages || (layers_ > 0 && layers_ % (pp * v) == 0))
        out.push_back(v);
    }
    return out;
  }

  template <class Wanted>
  void add_items(const Wanted& wanted) {
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      const auto& split = splits_[s];
      if (!is_of_family(split)) continue;
      const bool has_sequence = options_.sequence && split.tp > 1 && problem_.has_sequence();
      const auto local = batch_ / split.dp;
      for (const auto size : micro_batch_sizes(local)) {
        const auto micro_batches = local / size;
        if (micro_batches > most_micro_batches_) continue;
        for (const auto v : stages_of_a_rank(split.pp, micro_batches)) {
          if (!wanted(split, v) || (options_.stale && !may_be_stale(split, v, micro_batches))) {
            continue;
          }
          const auto* pipeline = pipeline_of(split.pp, v, micro_batches);
          if (pipeline == nullptr) continue;
          for (const bool sp : {false, true}) {
            if (sp && !has_sequence) continue;
            for (std::size_t r = 0; r < recomputations_.size(); ++r) {
              PassKind pass{.tensor = split.tensor,
                            .context = split.context,
                            .tp = split.tp,
                            .cp = split.cp,
                            .ep = split.ep,
                            .sequence_parallel = sp,
                            .micro_batch_size = size,
                            .recompute = r};
              if (pipeline->is_in_pieces()) {
                if (is_slow_in_pieces(pass, split.pp, micro_batches)) continue;
                pass.in_pieces = true;
              }
              const auto kind = kind_of(pass);
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

  // Is one of its strategies of the family that is evaluated?
  [[nodiscard]] bool is_of_family(const Split& split) const {
    if (!family_) return true;
    for (std::uint8_t zero = 0; zero <= 3; ++zero) {
      if (family_of({.zero = zero}, split) == *family_) return true;
    }
    return false;
  }

  static bool may_be_stale(const Split& split, std::int64_t stages_of_rank,
                           std::int64_t micro_batches) {
    return split.pp > 1 && stages_of_rank == 1 && micro_batches >= split.pp;
  }

  // By the loads of the same pass that is not in pieces: that is lowered in a fraction of the time.
  bool is_slow_in_pieces(const PassKind& whole, std::int64_t pp, std::int64_t micro_batches) {
    const auto& pass = bounds_[kind_of(whole)].pass;
    auto most = pass.compute;
    for (auto load : pass.levels) most = std::max(most, load);
    return static_cast<double>(micro_batches) * most / static_cast<double>(pp) >
           options_.near * best_;
  }

  void add(Item item) {
    const auto& split = splits_[item.split];
    if (item.zero > 0 && (split.dp * split.cp == 1 || split.ep > 1)) return;
    if (family_ && (family_of(item, split) != *family_ || evaluated_.contains(item.key()))) return;
    if (bounds_[item.kind].impossible) return;
    if (is_by_memory_) {
      add_by_memory(item);
      return;
    }
    if (memory_bound(item) > limit_) return;
    item.bound = time_bound(item);
    if (item.bound <= near_ * best_) {
      queue_.push(item);
    } else {
      note_other(item.bound);
    }
  }

  std::uint32_t kind_of(const PassKind& kind) {
    const auto [at, is_new] = kind_numbers_.try_emplace(kind, kinds_.size());
    if (is_new) {
      kinds_.push_back(kind);
      bounds_.push_back(is_by_memory_ ? Bounded{} : base_bound(kind));
    }
    return static_cast<std::uint32_t>(at->second);
  }

  // Before a kind is lowered: a sample takes least in the largest micro-batch with nothing
  // recomputed.
  Bounded base_bound(const PassKind& kind) {
    auto base = kind;
    base.micro_batch_size = kind.ep > 1 ? batch_ / digits_.devices() : batch_;
    base.recompute = 0;
    const auto [at, is_new] = base_bounds_.try_emplace(base);
    if (is_new) {
      at->second = bounded(base);
      note_device_seconds(base, at->second);
    }
    auto out = at->second;
    // That the largest cannot be had says nothing of smaller ones: they have no bound yet.
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
    // In smaller ones there may be more to compute between two operators.
    std::erase_if(pass.waits, [](const auto& wait) { return !wait.is_adjacent; });
    for (auto& wait : pass.waits) wait.seconds *= scale;
    pass.following *= scale;
    pass.sent = pass.sent * scale;
    pass.saved = {};
    pass.results.clear();
    return out;
  }

  // What one device alone computes is counted, too: it wastes nothing.
  double device_seconds() {
    (void)base_bound({.micro_batch_size = batch_});
    return device_seconds_ == kNever ? 0 : device_seconds_;
  }

  // A sample takes least in the largest micro-batch.
  void note_device_seconds(const PassKind& base, const Bounded& bound) {
    if (bound.impossible || base.in_pieces || bound.pass.units.empty()) return;
    const auto all = pipeline_of(1, 1, 1)->loads(bound.pass, 0).ranks[0];
    const auto devices = static_cast<double>(base.tp * base.cp);
    device_seconds_ = std::min(device_seconds_, devices * all);
  }

  Bounded bounded(const PassKind& kind) {
    auto bound = model_.bound(kind, recomputations_[kind.recompute]);
    if (!bound) return {.pass = {}, .known = true, .impossible = true};
    return {.pass = std::move(*bound), .known = true};
  }

  // A device holds at least its share of what is stored, and what its forward passes save before
  // its first backward pass. As much is saved again once all gradients are there, if there are
  // enough micro-batches.
  Bytes memory_bound(const Item& item) {
    const auto& split = splits_[item.split];
    const auto [always, gradients] = weights_.stored(split, item.zero, item.micro_batches);
    const auto* pipeline = pipeline_of(item);
    const auto& bound = bounds_[item.kind];
    const std::tuple now(pipeline, item.kind, bound.known);
    if (held_.first != now) held_ = {now, pipeline->held(bound.pass)};
    const auto held = held_.second;
    constexpr std::int64_t kRounds = 3;  // of the ranks by several stages of a rank
    const bool is_repeated = item.stages_of_rank == 1 ? item.micro_batches > split.pp
                                                      : item.micro_batches >= kRounds * split.pp;
    return always + (is_repeated ? gradients + held : std::max(gradients, held));
  }

  // No rank takes less than its stages do, and the updates of its weights after them. The last one
  // begins when all others have passed their first micro-batch forward, and they end after it with
  // its backward pass. No level has more to carry than there is time, and gradients are
  // synchronized in the last micro-batch.
  double time_bound(const Item& item) {
    const auto& split = splits_[item.split];
    const auto& pass = bounds_[item.kind].pass;
    const auto micro_batches = static_cast<double>(item.micro_batches);
    // ZeRO-2 and -3 accumulate shards.
    const bool accumulates = item.micro_batches > 1 && item.zero < 2;
    const auto& loads = loads_of(item, accumulates);
    const auto mean = std::accumulate(loads.ranks.begin(), loads.ranks.end(), 0.0) /
                      static_cast<double>(split.pp);
    double out = std::max(micro_batches * std::ranges::max(loads.ranks),
                          micro_batches * mean + weights_.update_time(split, item.zero));
    const auto on_level = [&](std::size_t level) {
      if (level >= pass.levels.size()) return 0.0;
      return micro_batches * pass.levels[level] / static_cast<double>(split.pp);
    };
    for (std::size_t l = 0; l < pass.levels.size(); ++l) out = std::max(out, on_level(l));
    if (split.pp > 1) {
      const auto sent = send_times(item);
      const auto send = sent.forward + sent.backward;
      const auto sends =
          static_cast<double>(item.stages_of_rank) - 0.5;  // the first sends no gradient
      const auto ranks_before = static_cast<double>(split.pp - 1);
      out = std::max(out, micro_batches * sends * send);
      // Of stale ones steps flow into each other.
      const auto others = options_.stale ? 0 : loads.others + ranks_before * send;
      out = std::max(out, micro_batches * loads.ranks.back() + others);
    }
    if (split.dp * split.cp == 1 || split.ep > 1) return out;
    // Of several stages of a rank, the others' last micro-batches may be before the last one of
    // the first, and the others' first ones before it gathers the last weights.
    const auto left = item.stages_of_rank == 1 ? 1 : split.pp;
    const auto before = static_cast<double>(std::max(item.micro_batches - left, std::int64_t{0}));
    std::vector<double> reduced(machine_.levels.size());  // by level, the mean of all ranks
    for (const auto& [rank, level, each, once, gather, again] : data_parallel_times(item)) {
      const auto sum = each + once;
      const auto sums = item.zero < 2 ? sum : micro_batches * each + once;
      const auto gathers = item.zero < 3 ? gather : micro_batches * (gather + again);
      const auto load = rank ? loads.ranks[*rank] : mean;
      out = std::max(out, on_level(level) + sums + gathers);
      if (options_.stale) continue;
      out = std::max(out, before * load + sum + (item.zero < 3 ? gather : 0));
      reduced[level] += rank ? each / static_cast<double>(split.pp) : each;
    }
    // Shards accumulate in every micro-batch but the first, each when it is reduced, before any
    // more compute. What else is sent may be sent meanwhile.
    if (item.zero >= 2 && !options_.stale) {
      out = std::max(out, micro_batches * pass.compute / static_cast<double>(split.pp) +
                              (micro_batches - 1) * std::ranges::max(reduced));
    }
    return out;
  }

  // Strategies that differ in their ZeRO stage come one after the other.
  const Pipeline::Loads& loads_of(const Item& item, bool accumulates) {
    const auto* pipeline = pipeline_of(item);
    const auto& bound = bounds_[item.kind];
    const LoadsKey key{pipeline, item.kind, item.micro_batches, bound.known};
    auto& last = last_loads_[accumulates ? 1 : 0];
    if (last.first != key) {
      // The first gradients are stored as they are.
      const auto some = static_cast<double>(item.micro_batches - 1);
      last = {key, pipeline->loads(bound.pass, accumulates ? some / (some + 1) : 0)};
    }
    return last.second;
  }

  // The schedule's step of what its kind takes at least. Strategies that differ in their ZeRO stage
  // have the same but for whether whole gradients accumulate.
  double schedule_bound(const Item& item) {
    const auto& split = splits_[item.split];
    if (split.pp == 1 || bounds_[item.kind].pass.forward.empty()) return 0;
    const bool accumulates = item.zero < 2;
    const auto [at, is_new] = schedule_bounds_.try_emplace(
        {item.kind, split.pp, item.stages_of_rank, item.micro_batches, accumulates});
    if (is_new) {
      plan::Schedule schedule;
      schedule.stages = split.pp * item.stages_of_rank;
      schedule.micro_batches = item.micro_batches;
      if (item.stages_of_rank > 1) schedule.order = plan::Order::kInterleaved;
      const auto stages =
          pipeline_of(item)->times(bounds_[item.kind].pass, accumulates && item.micro_batches > 1);
      at->second = schedules_.step(schedule, split.pp, stages, send_times(item));
    }
    return at->second;
  }

  // Of an activation to the next rank and a gradient back, where that is fastest.
  predict::PassTime send_times(const Item& item) {
    const auto& split = splits_[item.split];
    const auto& pass = bounds_[item.kind].pass;
    if (pass.sent == Bytes{}) return {};
    // Ranks differ in the innermost of their digits at least.
    const auto across = std::bit_floor(split.ranks);
    const auto time = [&](bool copied) {
      return predict::send_time(machine_, digits_, across, copied ? split.tensor : 0, pass.sent)
          .value;
    };
    return {time(pass.copied), time(pass.gradient_copied)};
  }

  // Until they are asked for of a strategy that may be the fastest, as if gradients and weights
  // were each one collective of tensors that are cut evenly.
  const std::vector<DataParallelTime>& data_parallel_times(const Item& item) {
    const auto& split = splits_[item.split];
    const bool is_sharded = item.zero > 0;
    const bool is_close = bounds_[item.kind].known;
    const auto stages_of_rank = is_close ? item.stages_of_rank : std::uint16_t{1};
    const auto [at, is_new] =
        data_parallel_times_.try_emplace({item.split, stages_of_rank, is_sharded, is_close});
    auto& times = at->second;
    if (!is_new) return times;
    if (is_close) {
      if (const auto weights = model_.shared_weights(kinds_[item.kind], split.ranks, is_sharded)) {
        return times = by_rank(*weights, *pipeline_of(item));
      }
    }
    times.push_back(weights_.as_one_collective(split, is_sharded));
    return times;
  }

  // Null where it cannot be divided so.
  const Pipeline* pipeline_of(std::int64_t pp, std::int64_t stages_of_rank,
                              std::int64_t micro_batches) {
    // More of them change nothing before the first backward pass.
    micro_batches = std::min(micro_batches, 4 * pp);
    const auto [at, is_new] = pipelines_.try_emplace({pp, stages_of_rank, micro_batches});
    if (is_new) at->second = model_.divide(pp, stages_of_rank, micro_batches);
    return at->second.get();
  }
  const Pipeline* pipeline_of(const Item& item) {
    return pipeline_of(splits_[item.split].pp, item.stages_of_rank, item.micro_batches);
  }

  // From the lowest bound on; a kind's own bound is found when one of its strategies is first.
  void evaluate() {
    std::vector<Item> next;
    while (!queue_.empty() && !is_over()) {
      auto item = queue_.top();
      if (item.bound > near_ * best_) break;
      queue_.pop();
      auto& bound = bounds_[item.kind];
      if (!bound.known) bound = bounded(kinds_[item.kind]);
      if (bound.impossible || needs_too_much(item)) continue;
      if (memory_bound(item) > limit_) continue;
      auto now = time_bound(item);
      if (now <= item.bound && !item.is_scheduled) {
        now = schedule_bound(item);
        item.is_scheduled = true;
      }
      if (now > item.bound) {
        item.bound = now;
        queue_.push(item);
        continue;
      }
      next.push_back(item);
      if (next.size() < model_.batch()) continue;
      evaluate(next);
      next.clear();
    }
    if (!next.empty()) evaluate(next);
    if (!queue_.empty()) note_other(queue_.top().bound);
    queue_ = {};
  }

  void note_other(double bound) {
    if (!family_) others_ = std::min(others_, bound);
  }

  // Strategies that differ only in their micro-batch size, the smallest first.
  using Sizes = std::vector<Item>;

  // Least is needed with everything recomputed.
  void add_by_memory(const Item& item) {
    const bool is_last = kinds_[item.kind].recompute + 1 == recomputations_.size();
    if (is_last && !evaluated_.contains(item.key())) by_size_[without_size(item)].push_back(item);
  }

  // One of several sizes, by what it seems to need.
  struct Needs {
    Bytes bytes;
    const Sizes* sizes;
    std::size_t at;
    [[nodiscard]] const Item& item() const { return (*sizes)[at]; }
    bool operator<(const Needs& other) const {
      return std::tuple(bytes, item().key()) < std::tuple(other.bytes, other.item().key());
    }
  };
  class SmallestFirst {
   public:
    [[nodiscard]] bool empty() const { return heap_.empty(); }
    void push(const Needs& needs) {
      heap_.push_back(needs);
      std::push_heap(heap_.begin(), heap_.end(), after);
    }
    Needs pop() {
      std::pop_heap(heap_.begin(), heap_.end(), after);
      const auto out = heap_.back();
      heap_.pop_back();
      return out;
    }

   private:
    static bool after(const Needs& a, const Needs& b) { return b < a; }
    std::vector<Needs> heap_;
  };

  // Adds the first of the sizes from `at` on that does not take too long to evaluate: thousands of
  // micro-batches do where they are simulated, and of what cannot fit anyway some are enough.
  void push_size(const Sizes& sizes, std::size_t at, SmallestFirst& to) {
    for (; at < sizes.size(); ++at) {
      const auto needs = memory_bound(sizes[at]);
      const auto most = needs > limit_ ? limits::kWorkOfTooLarge : limits::kWorkOfSmallest;
      if (at + 1 < sizes.size() && model_.work(sizes[at].micro_batches) > most) continue;
      to.push({needs, &sizes, at});
      return;
    }
  }

  // Evaluates what seems to need least, until something surely fits or nothing else seems to need
  // less: beyond its bound a strategy is expected to need what others of its kind do, gathered
  // weights and what a layer recomputes. Of all sizes the smallest that is possible needs least or,
  // as gradients are then shared at once, a single micro-batch.
  void evaluate_smallest() {
    is_by_memory_ = true;
    add_items([](const Split&, std::int64_t) { return true; });
    SmallestFirst queue;
    for (const auto& [key, sizes] : by_size_) {
      push_size(sizes, 0, queue);
      const auto last = sizes.size() - 1;
      if (last > 0 && sizes[last].micro_batches == 1) push_size(sizes, last, queue);
    }
    const auto most = model_.batch() == 1 ? limits::kSmallestEstimated : limits::kSmallestSimulated;
    std::map<std::pair<std::uint32_t, bool>, Bytes>
        beyond;  // by kind, and whether weights are gathered
    Bytes least{kNever};
    for (std::size_t evaluated = 0; !queue.empty() && evaluated < most && !is_stopped();) {
      const auto next = queue.pop();
      const auto& item = next.item();
      if (next.bytes >= least) break;
      auto& bound = bounds_[item.kind];
      if (!bound.known) bound = bounded(kinds_[item.kind]);
      if (bound.impossible) {
        push_size(*next.sizes, next.at + 1, queue);
        continue;
      }
      if (evaluated_.contains(item.key()) || needs_too_much(item)) continue;
      const auto at_least = memory_bound(item);
      const bool gathers = item.zero == 3;
      const auto more = beyond.find({item.kind, gathers});
      const auto expected = more == beyond.end() ? at_least : at_least + more->second;
      if (expected > next.bytes) {
        queue.push({expected, next.sizes, next.at});
        continue;
      }
      const auto before = out_.evaluated.size();
      evaluate({item});
      if (out_.evaluated.size() == before) {
        push_size(*next.sizes, next.at + 1, queue);
        continue;
      }
      ++evaluated;
      const auto& found = out_.evaluated.back();
      const auto now = limit_ + found.over - at_least;
      auto& known = beyond.try_emplace({item.kind, gathers}, now).first->second;
      known = std::min(known, now);
      if (found.over < -limits::kUnsureMemory * limit_) break;
      least = std::min(least, limit_ + found.over);
    }
    by_size_.clear();
    is_by_memory_ = false;
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

  void evaluate(const std::vector<Item>& items) {
    std::vector<Setting> settings;
    std::vector<const Item*> which;
    for (const auto& item : items) {
      auto setting = setting_of(item);
      if (options_.allowed && !is_allowed(item, setting)) continue;
      if (std::ranges::find(options_.known, setting, &Evaluated::setting) != options_.known.end()) {
        continue;
      }
      settings.push_back(std::move(setting));
      which.push_back(&item);
      evaluated_.insert(item.key());
    }
    auto made = model_.evaluate(settings);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!made[i]) continue;
      auto& evaluated = *made[i];
      evaluated.bound = which[i]->bound;
      auto& time = evaluated.simulation.iteration;
      check_bound((1 + evaluated.error_bound) * time, Seconds{evaluated.bound}, evaluated.name);
      time = std::max(time, Seconds{evaluated.bound});  // is proved, and an estimate is not
      check_bound(evaluated.simulation.memory, memory_bound(*which[i]), evaluated.name);
      note(*which[i], evaluated);
      out_.evaluated.push_back(std::move(evaluated));
    }
  }

  [[nodiscard]] bool is_over() const { return in_vain_ >= options_.patience || is_stopped(); }
  [[nodiscard]] bool is_stopped() const { return options_.stop && options_.stop(); }

  void note(const Item& item, const Evaluated& point) {
    const bool is_faster = point.feasible && point.simulation.iteration.value < best_;
    in_vain_ = is_faster ? 0 : in_vain_ + model_.work(item.micro_batches);
    if (point.feasible) {
      best_ = std::min(best_, point.simulation.iteration.value);
      return;
    }
    const auto size = kinds_[item.kind].micro_batch_size;
    auto& smallest = too_large_.try_emplace(without_size(item), size).first->second;
    smallest = std::min(smallest, size);
  }

  // Strategies of one split use the same dimensions.
  bool is_allowed(const Item& item, const Setting& setting) {
    const auto [at, is_new] =
        allowed_.try_emplace({item.split, kinds_[item.kind].sequence_parallel});
    if (is_new) at->second = options_.allowed(setting);
    return at->second;
  }

  [[nodiscard]] Setting setting_of(const Item& item) const {
    const auto& kind = kinds_[item.kind];
    auto out = search::setting_of(item, splits_[item.split], kind, recomputations_[kind.recompute]);
    out.stale = options_.stale;
    return out;
  }

  const strategies::Problem& problem_;
  const machine::Digits& digits_;
  std::int64_t batch_;
  const GridOptions& options_;
  GridModel& model_;
  Bytes limit_;
  const machine::Machine& machine_;
  WeightBounds weights_;
  std::int64_t most_stages_;
  std::int64_t most_micro_batches_;
  std::int64_t layers_;
  std::vector<std::string> recomputations_;
  std::vector<Split> splits_;
  std::map<PassKind, std::size_t> kind_numbers_;
  std::vector<PassKind> kinds_;
  std::vector<Bounded> bounds_;  // by kind
  std::map<PassKind, Bounded> base_bounds_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::unique_ptr<Pipeline>>
      pipelines_;
  // By split, stages of a rank, whether weights are stored sharded, and whether the kind's own
  // bound is known.
  std::map<std::tuple<std::uint32_t, std::uint16_t, bool, bool>, std::vector<DataParallelTime>>
      data_parallel_times_;
  std::pair<std::tuple<const Pipeline*, std::uint32_t, bool>, Bytes> held_;
  predict::ScheduleTimes schedules_;
  using LoadsKey = std::tuple<const Pipeline*, std::uint32_t, std::int64_t, bool>;
  std::array<std::pair<LoadsKey, Pipeline::Loads>, 2> last_loads_;  // by whether it accumulates
  // By kind, ranks, stages of a rank, micro-batches, and whether whole gradients accumulate.
  std::map<std::tuple<std::uint32_t, std::int64_t, std::uint16_t, std::int64_t, bool>, double>
      schedule_bounds_;
  std::map<Sizeless, std::int64_t> too_large_;  // the smallest micro-batch that is known to be
  std::map<std::pair<std::uint32_t, bool>, bool> allowed_;
  std::priority_queue<Item, std::vector<Item>, LowestBoundFirst> queue_;
  bool is_by_memory_ = false;  // are strategies added to these, in place of the queue?
  std::map<Sizeless, Sizes> by_size_;
  double near_;
  std::optional<Family> family_;  // that is evaluated alone
  std::set<Item::Key> evaluated_;
  double best_ = kNever;
  double others_ = kNever;  // lowest bound of those not evaluated
  double device_seconds_ = kNever;
  double in_vain_ = 0;  // work since a strategy was faster than all before
  GridResult out_;
};

}  // namespace

GridResult evaluate_grid(const Case& on, GridModel& model, const GridOptions& options) {
  return Grid(on, model, options).run();
}

}  // namespace tandem::search
