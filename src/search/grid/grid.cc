#include "search/grid/grid.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "base/error.h"
#include "search/bounds.h"
#include "search/grid/item.h"
#include "search/grid/split.h"
#include "search/grid/strategy_bounds.h"
#include "search/limits.h"
#include "strategies/recomputation.h"
#include "strategies/stages.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Setting;

constexpr double kNever = std::numeric_limits<double>::infinity();

class Grid {
 public:
  Grid(const Case& on, GridModel& model, const GridOptions& options)
      : problem_(*on.problem),
        batch_(on.batch),
        options_(options),
        model_(model),
        limit_(std::ranges::max(on.limits)),
        most_stages_(static_cast<std::int64_t>(strategies::find_cuts(*on.problem).size())),
        most_micro_batches_(get_max_micro_batches(on.problem->model)),
        layers_(count_layers(on)),
        bounds_(on, model, options.stale, splits_, recomputations_),
        near_(options.near),
        best_(options.beat) {
    for (const auto& known : options.known) {
      if (known.feasible) best_ = std::min(best_, known.time().value);
    }
    find_recomputations();
    splits_ =
        list_splits(problem_, batch_,
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
    out_.device_seconds = bounds_.bound_device_seconds();
    return std::move(out_);
  }

 private:
  static std::int64_t count_layers(const Case& on) {
    const bool has_layers = on.network != nullptr && on.network->settings.has("layers");
    return has_layers ? on.network->settings.size("layers") : 0;
  }

  void evaluate_all() {
    // The splits that are most often best come first, so that they prune the others from the
    // beginning.
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

  // Evaluates each family alone: only its own fastest strategy prunes it.
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
    for (const auto recompute : strategies::kRecomputations) {
      auto again = strategies::find_recomputed(recompute, problem_);
      if (std::ranges::find(seen, again) != seen.end()) continue;
      seen.push_back(std::move(again));
      recomputations_.push_back(recompute);
    }
  }

  // Returns micro-batch sizes: powers of two that divide `local`, the samples of a device, and
  // `local` itself.
  [[nodiscard]] static std::vector<std::int64_t> list_micro_batch_sizes(std::int64_t local) {
    std::vector<std::int64_t> out;
    for (std::int64_t size = 1; size < local; size *= 2) {
      if (local % size == 0) out.push_back(size);
    }
    out.push_back(local);
    return out;
  }

  // Returns numbers of virtual stages per rank: up to eight, and larger ones that divide the
  // layers.
  [[nodiscard]] std::vector<std::int64_t> list_stages_of_rank(std::int64_t pp,
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
      for (const auto size : list_micro_batch_sizes(local)) {
        const auto micro_batches = local / size;
        if (micro_batches > most_micro_batches_) continue;
        for (const auto v : list_stages_of_rank(split.pp, micro_batches)) {
          if (!wanted(split, v) || (options_.stale && !may_be_stale(split, v, micro_batches))) {
            continue;
          }
          const auto* pipeline = bounds_.get_pipeline(split.pp, v, micro_batches);
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
              const auto kind = get_kind_number(pass);
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

  // Returns whether a strategy of the split belongs to the family being evaluated.
  [[nodiscard]] bool is_of_family(const Split& split) const {
    if (!family_) return true;
    for (std::uint8_t zero = 0; zero <= 3; ++zero) {
      if (get_family({.zero = zero}, split) == *family_) return true;
    }
    return false;
  }

  static bool may_be_stale(const Split& split, std::int64_t stages_of_rank,
                           std::int64_t micro_batches) {
    return split.pp > 1 && stages_of_rank == 1 && micro_batches >= split.pp;
  }

  // Returns whether the loads of the pass with stages of whole layers are already too slow. That
  // pass is much faster to lower.
  bool is_slow_in_pieces(const PassKind& whole, std::int64_t pp, std::int64_t micro_batches) {
    const auto& pass = bounds_.pass(get_kind_number(whole)).pass;
    auto most = pass.compute;
    for (auto load : pass.levels) most = std::max(most, load);
    return static_cast<double>(micro_batches) * most / static_cast<double>(pp) >
           options_.near * best_;
  }

  std::uint32_t get_kind_number(const PassKind& kind) {
    return bounds_.get_kind_number(kind, !is_by_memory_);
  }

  void add(Item item) {
    const auto& split = splits_[item.split];
    if (item.zero > 0 && (split.dp * split.cp == 1 || split.ep > 1)) return;
    if (family_ && (get_family(item, split) != *family_ || evaluated_.contains(item.key()))) return;
    if (bounds_.pass(item.kind).impossible) return;
    if (is_by_memory_) {
      add_by_memory(item);
      return;
    }
    if (bounds_.bound_memory(item) > limit_) return;
    item.bound = bounds_.bound_time(item);
    if (item.bound <= near_ * best_) {
      queue_.push(item);
    } else {
      record_other_bound(item.bound);
    }
  }

  // Evaluates by ascending bound. A kind's own bound is computed when one of its strategies comes
  // first.
  void evaluate() {
    std::vector<Item> next;
    while (!queue_.empty() && !is_over()) {
      auto item = queue_.top();
      if (item.bound > near_ * best_) break;
      queue_.pop();
      if (bounds_.get_close_bound(item.kind).impossible || needs_too_much(item)) continue;
      if (bounds_.bound_memory(item) > limit_) continue;
      auto now = bounds_.bound_time(item);
      if (now <= item.bound && !item.is_scheduled) {
        now = bounds_.bound_scheduled_time(item);
        item.is_scheduled = true;
      }
      if (now > item.bound) {
        item.bound = now;
        queue_.push(item);
        continue;
      }
      next.push_back(item);
      if (next.size() < model_.strategies_at_once()) continue;
      evaluate(next);
      next.clear();
    }
    if (!next.empty()) evaluate(next);
    if (!queue_.empty()) record_other_bound(queue_.top().bound);
    queue_ = {};
  }

  void record_other_bound(double bound) {
    if (!family_) others_ = std::min(others_, bound);
  }

  // Strategies that differ only in their micro-batch size, smallest first.
  using Sizes = std::vector<Item>;

  // Adds an item if it recomputes everything, since that needs the least memory.
  void add_by_memory(const Item& item) {
    const bool is_last = bounds_.kind(item.kind).recompute + 1 == recomputations_.size();
    if (is_last && !evaluated_.contains(item.key()))
      by_size_[make_sizeless_key(item)].push_back(item);
  }

  // One of several sizes, ordered by the memory that it seems to need.
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
      std::push_heap(heap_.begin(), heap_.end(), comes_after);
    }
    Needs pop() {
      std::pop_heap(heap_.begin(), heap_.end(), comes_after);
      const auto out = heap_.back();
      heap_.pop_back();
      return out;
    }

   private:
    static bool comes_after(const Needs& a, const Needs& b) { return b < a; }
    std::vector<Needs> heap_;
  };

  // Adds the first size from `at` on that does not take too long to evaluate. Thousands of
  // micro-batches take long if they are simulated. For strategies that surely do not fit, few
  // micro-batches are enough.
  void push_size(const Sizes& sizes, std::size_t at, SmallestFirst& to) {
    for (; at < sizes.size(); ++at) {
      const auto needs = bounds_.bound_memory(sizes[at]);
      const auto most = needs > limit_ ? limits::kWorkOfTooLarge : limits::kWorkOfSmallest;
      if (at + 1 < sizes.size() && model_.estimate_work(sizes[at].micro_batches) > most) continue;
      to.push({needs, &sizes, at});
      return;
    }
  }

  // Evaluates strategies by ascending expected memory, until one surely fits or no other is
  // expected to need less. The expected memory is the bound plus the excess that others of the same
  // kind had: gathered weights and recomputed tensors of a layer. Of all micro-batch sizes the
  // smallest possible one needs the least. A single micro-batch may need less still, since its
  // gradients are reduced at once.
  void evaluate_smallest() {
    is_by_memory_ = true;
    add_items([](const Split&, std::int64_t) { return true; });
    SmallestFirst queue;
    for (const auto& [key, sizes] : by_size_) {
      push_size(sizes, 0, queue);
      const auto last = sizes.size() - 1;
      if (last > 0 && sizes[last].micro_batches == 1) push_size(sizes, last, queue);
    }
    const auto most =
        model_.strategies_at_once() == 1 ? limits::kSmallestEstimated : limits::kSmallestSimulated;
    std::map<std::pair<std::uint32_t, bool>, Bytes>
        beyond;  // by kind, and whether weights are gathered
    Bytes least{kNever};
    for (std::size_t evaluated = 0; !queue.empty() && evaluated < most && !is_stopped();) {
      const auto next = queue.pop();
      const auto& item = next.item();
      if (next.bytes >= least) break;
      if (bounds_.get_close_bound(item.kind).impossible) {
        push_size(*next.sizes, next.at + 1, queue);
        continue;
      }
      if (evaluated_.contains(item.key()) || needs_too_much(item)) continue;
      const auto at_least = bounds_.bound_memory(item);
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

  // More samples at once never need less memory.
  using Sizeless = std::tuple<std::uint32_t, bool, std::size_t, std::uint16_t, std::uint8_t>;
  [[nodiscard]] Sizeless make_sizeless_key(const Item& item) const {
    const auto& kind = bounds_.kind(item.kind);
    return {item.split, kind.sequence_parallel, kind.recompute, item.stages_of_rank, item.zero};
  }
  [[nodiscard]] bool needs_too_much(const Item& item) const {
    const auto at = too_large_.find(make_sizeless_key(item));
    return at != too_large_.end() && bounds_.kind(item.kind).micro_batch_size >= at->second;
  }

  void evaluate(const std::vector<Item>& items) {
    std::vector<Setting> settings;
    std::vector<const Item*> which;
    for (const auto& item : items) {
      auto setting = make_setting(item);
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
      time = std::max(time, Seconds{evaluated.bound});  // the bound is proved, an estimate is not
      check_bound(evaluated.simulation.memory, bounds_.bound_memory(*which[i]), evaluated.name);
      record_outcome(*which[i], evaluated);
      out_.evaluated.push_back(std::move(evaluated));
    }
  }

  [[nodiscard]] bool is_over() const { return in_vain_ >= options_.patience || is_stopped(); }
  [[nodiscard]] bool is_stopped() const { return options_.stop && options_.stop(); }

  void record_outcome(const Item& item, const Evaluated& point) {
    const bool is_faster = point.feasible && point.simulation.iteration.value < best_;
    in_vain_ = is_faster ? 0 : in_vain_ + model_.estimate_work(item.micro_batches);
    if (point.feasible) {
      best_ = std::min(best_, point.simulation.iteration.value);
      return;
    }
    const auto size = bounds_.kind(item.kind).micro_batch_size;
    auto& smallest = too_large_.try_emplace(make_sizeless_key(item), size).first->second;
    smallest = std::min(smallest, size);
  }

  // Strategies of one split use the same dimensions.
  bool is_allowed(const Item& item, const Setting& setting) {
    const auto [at, is_new] =
        allowed_.try_emplace({item.split, bounds_.kind(item.kind).sequence_parallel});
    if (is_new) at->second = options_.allowed(setting);
    return at->second;
  }

  [[nodiscard]] Setting make_setting(const Item& item) const {
    const auto& kind = bounds_.kind(item.kind);
    auto out =
        search::make_setting(item, splits_[item.split], kind, recomputations_[kind.recompute]);
    out.stale = options_.stale;
    return out;
  }

  const strategies::Problem& problem_;
  std::int64_t batch_;
  const GridOptions& options_;
  GridModel& model_;
  Bytes limit_;
  std::int64_t most_stages_;
  std::int64_t most_micro_batches_;
  std::int64_t layers_;
  std::vector<strategies::Recompute> recomputations_;
  std::vector<Split> splits_;
  StrategyBounds bounds_;
  std::map<Sizeless, std::int64_t> too_large_;  // smallest micro-batch size known to be too large
  std::map<std::pair<std::uint32_t, bool>, bool> allowed_;
  std::priority_queue<Item, std::vector<Item>, LowestBoundFirst> queue_;
  bool is_by_memory_ = false;  // whether items go to by_size_ instead of the queue
  std::map<Sizeless, Sizes> by_size_;
  double near_;
  std::optional<Family> family_;  // the only family to evaluate, if set
  std::set<Item::Key> evaluated_;
  double best_ = kNever;
  double others_ = kNever;  // lowest bound of strategies that were not evaluated
  double in_vain_ = 0;      // work since the last improvement
  GridResult out_;
};

}  // namespace

GridResult evaluate_grid(const Case& on, GridModel& model, const GridOptions& options) {
  return Grid(on, model, options).run();
}

}  // namespace tandem::search
