#include "search/neighbours/fewer_devices.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "machine/submachine.h"
#include "search/limits.h"
#include "search/pool.h"
#include "search/strategy_search.h"

namespace tandem::search {

namespace {

using Units = std::vector<std::int64_t>;

constexpr double kForever = std::numeric_limits<double>::infinity();

struct TimedPart {
  machine::Machine machine;
  double time;  // step time that a quick search finds, in seconds
  std::optional<strategies::Setting> setting = {};  // its strategy, if it is a plain one
};

std::int64_t count_units(const Units& units) {
  std::int64_t out = 1;
  for (auto n : units) out *= n;
  return out;
}

bool has_small_factors(std::int64_t n) {
  for (const std::int64_t p : {2, 3, 5, 7}) {
    while (n % p == 0) n /= p;
  }
  return n == 1;
}

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

// Lists parts of the machine, the largest first, as numbers of units by level. With `are_many`, the
// outermost level has any number up to 64; above that, powers of two and the largest few with small
// prime factors only. Without `are_many`, its numbers divide the batch or select the fastest
// groups; with `has_pipelines`, those up to 64 need not divide it. The innermost level is whole or
// reduced to a power of two. Parts of a single outer unit also have a half, a quarter, ... of the
// innermost level.
//   {3, 5} -> {3, 4} {2, 5} {2, 4} {1, 5} {1, 4} {1, 2} {1, 1}
std::vector<Units> list_parts(const machine::Machine& machine, std::int64_t batch, bool are_many,
                              bool has_pipelines) {
  std::set<std::int64_t> of_groups;
  auto sorted_groups = machine.groups;
  std::ranges::stable_sort(sorted_groups, std::greater{}, machine::compute_strength);
  std::int64_t together = 0;
  for (const auto& group : sorted_groups) of_groups.insert(together += group.units);
  Units all;
  for (const auto& level : machine.levels) all.push_back(level.count);
  if (all.empty()) return {};
  int smooth = 0;
  std::set<Units> out;
  for (auto n = all[0]; n >= 1; --n) {
    const bool wanted = are_many
                            ? is_power_of_two(n) || n + 1 >= all[0] || n <= limits::kEveryCount ||
                                  (has_small_factors(n) && smooth++ < limits::kSmoothCounts)
                            : batch % n == 0 || n == all[0] || of_groups.contains(n) ||
                                  (has_pipelines && n <= limits::kEveryCount);
    if (!wanted) continue;
    auto units = all;
    units[0] = n;
    out.insert(units);
    std::int64_t power = 1;
    while (2 * power < all.back()) power *= 2;
    if (all.size() > 1 && !is_power_of_two(all.back())) {
      units.back() = power;
      out.insert(units);
    }
  }
  for (auto n = all.back() / 2; n >= 1; n /= 2) {
    Units units(all.size(), 1);
    units.back() = n;
    out.insert(units);
  }
  out.erase(all);
  std::vector<Units> sorted(out.begin(), out.end());
  std::ranges::stable_sort(sorted, std::greater{}, count_units);
  return sorted;
}

// Returns the fastest plain strategy, or nullopt if it does not take less than `beat`.
std::optional<StrategySearch::QuickResult> find_fastest_plain(const graph::Graph& model,
                                                              const machine::Machine& machine,
                                                              const Options& options, double beat) {
  try {
    CandidatePool pool(model, machine, options);
    if (!pool.may_fit()) return std::nullopt;
    return StrategySearch(pool, true).find_fastest_plain(beat);
  } catch (const UserError&) {  // no strategy can use this part
    return std::nullopt;
  }
}

// Returns the part's step time by its plain strategy, times what layouts of its own save of that
// strategy's costs.
double predict_with_layouts(const graph::Graph& model, const TimedPart& part,
                            const Options& options) {
  if (!part.setting) return part.time;
  CandidatePool pool(model, part.machine, options);
  return part.time *
         StrategySearch(pool, true).compute_layout_cost_ratio(*part.setting).value_or(1);
}

// Returns the time of the fastest layouts without rewrites, or nullopt if it is not less than
// `beat`. `by_grid`: also searches the whole grid of strategies.
std::optional<StrategySearch::QuickResult> find_fastest_layouts(const graph::Graph& model,
                                                                const machine::Machine& machine,
                                                                Options options, double beat,
                                                                bool by_grid) {
  options.algebra = RewriteSearch::kNone;
  options.grid = by_grid;
  options.beat = Seconds{beat};
  options.tolerance = 0;
  try {
    const auto found = search(model, machine, options);
    if (!found.best) return std::nullopt;
    const auto time = found.best->simulation.iteration.value;
    if (time >= beat) return std::nullopt;
    return StrategySearch::QuickResult{time};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Returns, by family, the better of its rows on all devices and on a part of them.
std::vector<Evaluated> choose_better_rows(const std::vector<Evaluated>& on_all,
                                          const std::vector<Evaluated>& on_part,
                                          std::int64_t part_devices) {
  auto out = on_all;
  for (auto row : on_part) {
    row.devices = part_devices;
    const auto at = std::ranges::find(out, row.family, &Evaluated::family);
    if (at == out.end()) {
      out.push_back(std::move(row));
    } else if (is_better(row, *at)) {
      *at = std::move(row);
    }
  }
  return out;
}

// Returns the units of each level that a plan for `machine` uses: without the digits over which
// every operator is at one place.
//   {8, 4}, all operators idle over 8 nodes -> {1, 4}
Units count_used_units(const plan::MappedGraph& mapped, const machine::Machine& machine) {
  Units out;
  for (const auto& level : machine.levels) out.push_back(level.count);
  const machine::Digits digits(machine, mapped.schedule.micro_batches);
  for (std::size_t d = 0; d < digits.count(); ++d) {
    std::set<std::int64_t> places;  // -1: not idle
    for (const auto id : mapped.pcg.ids()) {
      if (mapped.pcg.node(id).op.role() != ops::Role::kCompute) continue;
      const auto role = mapped.layouts[id.index()][d];
      places.insert(role.is_idle() ? role.place() : -1);
    }
    const bool is_unused = places.size() == 1 && !places.contains(-1);
    if (digits[d].level < out.size() && is_unused) out[digits[d].level] /= digits[d].size;
  }
  return out;
}

// Measures the seconds of a search that has already run for `taken` seconds.
class SearchClock {
 public:
  SearchClock(const Until& until, double taken) : until_(until), taken_(taken) {}

  [[nodiscard]] double elapsed() const {
    const auto now = std::chrono::steady_clock::now() - begin_;
    return taken_ + std::chrono::duration<double>(now).count();
  }
  [[nodiscard]] std::optional<double> remaining() const {
    return until_.seconds ? std::optional(*until_.seconds - elapsed()) : std::nullopt;
  }
  [[nodiscard]] bool is_over() const {
    return (until_.seconds && *remaining() <= 0) || (until_.interrupted && until_.interrupted());
  }

 private:
  const Until& until_;
  double taken_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Finds the parts that may be faster than the whole machine.
class PartSearch {
 public:
  PartSearch(const graph::Graph& model, const machine::Machine& machine, const Options& options,
             const Result& all, const SearchClock& clock)
      : model_(model),
        machine_(machine),
        options_(options),
        all_(all),
        clock_(clock),
        is_plain_(has_equal_layers(options)),
        by_grid_(!all.best || all.best->mapped.schedule.micro_batches > 1) {
    const machine::Digits digits(machine);
    batch_ = strategies::find_batch_size({model, digits}).value_or(0);
    parts_ = list_parts(machine, batch_, is_plain_, false);
    even_parts_ = parts_.size();
    if (!is_plain_ && has_fast_pipelines()) {
      for (const auto& part : list_parts(machine, batch_, is_plain_, true)) {
        if (std::ranges::find(parts_, part) == parts_.end()) parts_.push_back(part);
      }
    }
    is_searched_.resize(parts_.size());
  }

  // Returns the fastest part and those near it, those first that layouts make the fastest.
  std::vector<TimedPart> run() {
    if (is_plain_) {
      for (auto i : order_by_common_devices()) (void)search_part(i);
    } else {
      search_some(0, even_parts_);
      if (parts_.size() - even_parts_ > limits::kFewParts) {
        search_some(even_parts_, parts_.size());
      } else {
        for (auto i = even_parts_; i < parts_.size(); ++i) (void)search_part(i);
      }
    }
    std::ranges::stable_sort(found_, {}, &TimedPart::time);
    std::erase_if(found_, [&](const auto& part) { return part.time > limits::kNearPart * best_; });
    if (is_plain_) {
      found_.resize(std::min(found_.size(), limits::kPartsPriced));
      for (auto& part : found_) part.time = predict_with_layouts(model_, part, options_);
      std::ranges::stable_sort(found_, {}, &TimedPart::time);
    }
    return std::move(found_);
  }

 private:
  // Returns whether pipelines may be the fastest on a part: they are on all devices, or the batch
  // does not divide among all devices.
  [[nodiscard]] bool may_gain_by_pipelines() const {
    return batch_ % machine_.devices() != 0 || all_.best->mapped.schedule.stages > 1;
  }

  // Returns whether pipelines may be the fastest on a part whose units do not divide the batch, and
  // are found soon.
  //   batch 2048 on 6 nodes of 8: 3 stages of 16 devices
  [[nodiscard]] bool has_fast_pipelines() const {
    const bool is_small = model_.size() <= limits::kPricedNodes;
    return all_.best && may_gain_by_pipelines() &&
           (is_small || all_.best->mapped.schedule.stages > 1);
  }

  // Orders parts by the devices that the batch divides among: early fast parts spare most of the
  // search of later ones.
  //   batch 16: {8, 4} {4, 4} before {14, 4} before {15, 5}
  [[nodiscard]] std::vector<std::size_t> order_by_common_devices() const {
    std::vector<std::size_t> out(parts_.size());
    std::iota(out.begin(), out.end(), std::size_t{0});
    std::ranges::stable_sort(out, std::greater{}, [&](std::size_t i) {
      return std::gcd(batch_, count_units(parts_[i]));
    });
    return out;
  }

  // Searches about every second part, since searching layouts on all of them takes too long. It
  // does so for each number of innermost units, separately for parts that divide the batch and for
  // others. Then it searches the neighbours of the fastest part until none of them is faster.
  //   32, 24, 16, 12, 8, 4 nodes -> 32, 16, 8, 4; if 8 nodes are the fastest -> also 12 and 24
  void search_some(std::size_t begin, std::size_t end) {
    std::map<std::pair<std::int64_t, bool>, double> most;  // devices of the next part at most
    for (auto i = begin; i < end; ++i) {
      const auto devices = static_cast<double>(count_units(parts_[i]));
      const bool divides = batch_ % parts_[i][0] == 0;
      const auto [at, is_first] = most.try_emplace({parts_[i].back(), divides});
      if (!is_first && devices > at->second) continue;
      at->second = limits::kNextPart * devices;
      (void)search_part(i);
    }
    for (bool is_new = best_ < kForever; is_new && fastest_ >= begin;) {
      const auto first = std::max(begin, fastest_ - std::min(fastest_, limits::kPartsBeside));
      const auto last = std::min(fastest_ + limits::kPartsBeside + 1, end);
      is_new = false;
      for (auto i = first; i < last; ++i) is_new |= search_part(i);
    }
  }

  // Returns false if the part was searched before or the time is over.
  bool search_part(std::size_t i) {
    if (is_searched_[i] || clock_.is_over()) return false;
    is_searched_[i] = true;
    const auto most = std::min(compute_time_to_beat(), limits::kNearPart * best_);
    if (all_.device_seconds / static_cast<double>(count_units(parts_[i])) > most) return true;
    auto part = machine::make_submachine(machine_, parts_[i]);
    if (!part) return true;
    options_.until.seconds = clock_.remaining();
    const bool is_even = i < even_parts_;
    std::optional<StrategySearch::QuickResult> takes;
    if (is_plain_) {
      takes = find_fastest_plain(model_, *part, options_, most);
    } else if (is_even) {
      takes = find_fastest_layouts(model_, *part, options_, most, by_grid_);
    }
    if (!is_plain_ && (!by_grid_ || !is_even) && may_gain_by_pipelines()) {
      const auto plain = find_fastest_plain(model_, *part, options_, takes ? takes->time : most);
      if (plain) takes = plain;
    }
    if (!takes) return true;
    found_.push_back({std::move(*part), takes->time, std::move(takes->setting)});
    if (takes->time >= best_) return true;
    best_ = takes->time;
    fastest_ = i;
    return true;
  }

  // Returns the time that a part has to beat. Plain strategies on a part compete with plain ones on
  // all devices: layouts gain about the same on both. They gain more on a part whose devices are
  // equal, unlike those of the whole machine.
  [[nodiscard]] double compute_time_to_beat() const {
    if (!all_.best) return kForever;
    if (!is_plain_) return limits::kRewritesMayGain * all_.fastest.value;
    const auto plain = std::max(all_.fastest, all_.fastest_strategy).value;
    const bool is_mixed = !machine_.groups.empty();
    return (is_mixed ? limits::kLayoutsMayGain : limits::kWorthFewer) * plain;
  }

  const graph::Graph& model_;
  const machine::Machine& machine_;
  Options options_;
  const Result& all_;
  const SearchClock& clock_;
  bool is_plain_;
  // Whether to search a part's grid, too: the whole batch may not fit there at once.
  bool by_grid_;
  std::int64_t batch_ = 0;
  // Parts that divide the batch or select groups, the largest first; then those for pipelines only.
  std::vector<Units> parts_;
  std::size_t even_parts_ = 0;  // number of the former
  std::vector<bool> is_searched_;
  std::vector<TimedPart> found_;
  double best_ = kForever;
  std::size_t fastest_ = 0;
};

}  // namespace

std::optional<FewerDevices> search_fewer_devices(const graph::Graph& model,
                                                 const machine::Machine& machine,
                                                 const Options& options, const Result& all) {
  if (options.until.first_fit || options.until.candidates ||
      all.stop_reason == StopReason::kInterrupted) {
    return std::nullopt;
  }
  const SearchClock clock(options.until, all.search_s);
  auto own = options;
  own.passes = std::make_shared<KnownPasses>();
  auto parts = PartSearch(model, machine, own, all, clock).run();
  parts.resize(std::min(parts.size(), limits::kPartsRewritten));
  auto least = all.best ? limits::kWorthFewer * all.fastest : Seconds{kForever};
  std::optional<FewerDevices> fastest;
  std::vector<std::string> searched;
  const auto search_part = [&](machine::Machine part) {
    searched.push_back(part.name);
    own.until.seconds = clock.remaining();
    auto found = search(model, part, own);
    if (!found.best || found.fastest > least) return;
    least = found.fastest;
    fastest = {std::move(part), std::move(found)};
  };
  for (auto& part : parts) {
    if (!clock.is_over()) search_part(std::move(part.machine));
  }
  // The best plan may leave devices idle. A search of the devices that it uses finds more, and a
  // plan for these devices alone is preferred if it takes as long.
  if (!fastest) least = all.fastest;
  if (const auto& best = fastest ? fastest->result.best : all.best; best && !clock.is_over()) {
    const auto& from = fastest ? fastest->machine : machine;
    const auto used = count_used_units(best->mapped, from);
    auto part =
        count_units(used) < from.devices() ? machine::make_submachine(machine, used) : std::nullopt;
    if (part && std::ranges::find(searched, part->name) == searched.end()) {
      search_part(std::move(*part));
    }
  }
  if (!fastest) return std::nullopt;
  auto& out = *fastest;
  for (auto& row : out.result.faster) row.devices = out.machine.devices();
  out.result.baselines =
      choose_better_rows(all.baselines, out.result.baselines, out.machine.devices());
  out.result.search_s = clock.elapsed();
  out.result.candidates += all.candidates;
  out.result.estimated += all.estimated;
  return fastest;
}

}  // namespace tandem::search
