#include "search/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/parallel.h"
#include "search/estimates.h"
#include "search/limits.h"

namespace tandem::search {

namespace {

using strategies::Setting;

struct EvaluationTask {
  const Case* on = nullptr;
  const Setting* setting = nullptr;
  std::size_t case_number = 0;
};
using Outcome = std::variant<Evaluated, Refused>;

// Returns whether some point takes less time and memory than `rough`, even if `rough` takes less
// than estimated.
bool is_beaten(const Evaluated& rough, const std::vector<const Evaluated*>& sure) {
  const auto& s = rough.simulation;
  return std::ranges::any_of(sure, [&](const Evaluated* other) {
    return limits::kRoughly * other->time() <= s.iteration &&
           limits::kRoughMemory * other->simulation.memory <= s.memory;
  });
}

// Evaluates all work in parallel. First each thread takes a case and makes its estimates. Then the
// remaining settings are simulated one by one. Last, rough estimates are simulated that may be the
// fastest or on the Pareto front. Results are stored by the index of the setting.
class Team {
 public:
  Team(const std::vector<EvaluationTask>& work, const ExploreOptions& options)
      : work_(work), options_(options), outcomes_(work.size()) {}

  std::vector<std::optional<Outcome>> run() {
    const auto estimable = list_cases_with_network();
    parallel_for(estimable.size(), options_.threads,
                 [&](std::size_t c) { estimate_case(estimable[c]); });
    for (std::size_t i = 0; i < work_.size(); ++i) {
      if (!outcomes_[i]) left_.push_back(i);
    }
    // Each round of simulations rules out some rough estimates.
    do {
      parallel_for(left_.size(), options_.threads, [this](std::size_t i) {
        if (!must_stop()) simulate(left_[i]);
      });
      left_ = choose_next_rough();
    } while (!left_.empty() && !stopped_);
    return std::move(outcomes_);
  }

 private:
  // Returns each case's fastest rough estimates that no point beats.
  [[nodiscard]] std::vector<std::size_t> choose_next_rough() const {
    std::map<std::size_t, std::vector<const Evaluated*>> sure;
    std::map<std::size_t, std::vector<std::size_t>> rough;
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const auto* point = outcomes_[i] ? std::get_if<Evaluated>(&*outcomes_[i]) : nullptr;
      if (point == nullptr) continue;
      const auto at = work_[i].case_number;
      if (point->is_rough()) {
        rough[at].push_back(i);
      } else {
        sure[at].push_back(point);
      }
    }
    std::vector<std::size_t> out;
    for (auto& of_case : rough) {
      const auto& known = sure[of_case.first];
      auto& own = of_case.second;
      const auto point = [&](std::size_t i) -> const Evaluated& {
        return std::get<Evaluated>(*outcomes_[i]);
      };
      std::erase_if(own, [&](std::size_t i) { return is_beaten(point(i), known); });
      std::ranges::stable_sort(own, {}, [&](std::size_t i) { return point(i).time(); });
      own.resize(std::min(own.size(), limits::kRoughSimulated));
      out.insert(out.end(), own.begin(), own.end());
    }
    return out;
  }

  [[nodiscard]] std::vector<std::size_t> list_cases_with_network() const {
    std::vector<std::size_t> out;
    for (const auto& work : work_) {
      if (work.on->network == nullptr) continue;
      if (out.empty() || out.back() != work.case_number) out.push_back(work.case_number);
    }
    return out;
  }

  bool must_stop() {
    if (options_.stop && options_.stop()) stopped_ = true;
    return stopped_;
  }

  void estimate_case(std::size_t number) {
    std::optional<Estimates> estimates;
    for (std::size_t i = 0; i < work_.size() && !must_stop(); ++i) {
      if (work_[i].case_number != number) continue;
      if (!estimates) estimates.emplace(*work_[i].on);
      try {
        if (auto point = estimates->compute_estimate(*work_[i].setting)) {
          store_outcome(i, std::move(*point));
        }
      } catch (const UserError&) {  // the simulation says what is wrong
      }
    }
  }

  void simulate(std::size_t i) { store_outcome(i, evaluate(*work_[i].on, *work_[i].setting)); }

  // Stores an outcome. Only the thread that started the work reports progress.
  void store_outcome(std::size_t i, Outcome outcome) {
    std::visit([&](auto& o) { o.case_number = work_[i].case_number; }, outcome);
    outcomes_[i] = std::move(outcome);
    const auto done = ++done_;
    const bool reports = std::this_thread::get_id() == asking_;
    if (reports && options_.progress) options_.progress(done, work_.size());
  }

  const std::vector<EvaluationTask>& work_;
  const ExploreOptions& options_;
  std::vector<std::optional<Outcome>> outcomes_;
  std::vector<std::size_t> left_;  // to be simulated
  std::thread::id asking_ = std::this_thread::get_id();
  std::atomic<std::size_t> done_ = 0;
  std::atomic<bool> stopped_ = false;
};

std::optional<double> find_reference(const std::vector<Evaluated>& points, const Case& on,
                                     std::size_t case_number) {
  const auto* name = on.problem->has(strategies::LayerKind::kEmbedding) ? "madmax" : "fsdp";
  for (const auto& point : points) {
    if (point.case_number == case_number && point.name == name) return point.throughput;
  }
  return std::nullopt;
}

// Returns whether `a` has fewer settings than `b`, or as many and a shorter text.
bool is_simpler(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& strategy) {
    const auto settings =
        strategy.find(':') == std::string::npos ? 0 : 1 + std::ranges::count(strategy, ',');
    return std::pair(settings, strategy.size());
  };
  return key(a) < key(b);
}

}  // namespace

std::string format_reason(const std::string& message, const std::string& hint) {
  return hint.empty() ? message : fmt::format("{} ({})", message, hint);
}

std::variant<Evaluated, Refused> evaluate(const Case& on, const Setting& setting) {
  if (on.mode == lower::Mode::kInference && setting.recompute != strategies::Recompute::kNone) {
    return Refused{0, to_text(setting),
                   "recomputation requires a backward pass, but inference has none"};
  }
  try {
    auto made = strategies::make_strategy(setting, *on.problem);
    if (const auto* refusal = std::get_if<strategies::Refusal>(&made)) {
      return Refused{0, to_text(setting), format_reason(refusal->message, refusal->hint)};
    }
    auto& strategy = std::get<strategies::Strategy>(made);
    strategy.schedule.precision = get_precision(on, setting);
    return make_point(on, cost_choices(on.problem->model, *on.machine, strategy.name,
                                       strategy.choices, strategy.schedule, on.optimizer, on.limits,
                                       on.mode, predict::Classes::kDifferent));
  } catch (const UserError& error) {
    return Refused{0, to_text(setting), format_reason(error.message, error.hint)};
  }
}

Exploration explore(const std::vector<Case>& cases,
                    const std::vector<std::vector<Setting>>& settings,
                    const ExploreOptions& options) {
  CHECK(cases.size() == settings.size(), cases.size());
  std::vector<EvaluationTask> work;
  for (std::size_t c = 0; c < cases.size(); ++c) {
    for (const auto& setting : settings[c]) work.push_back({&cases[c], &setting, c});
  }
  Exploration out{.points = {}, .refused = {}, .asked = work.size(), .reference = {}};
  for (auto& outcome : Team(work, options).run()) {
    if (!outcome) continue;
    if (auto* point = std::get_if<Evaluated>(&*outcome)) {
      out.points.push_back(std::move(*point));
    } else {
      out.refused.push_back(std::get<Refused>(std::move(*outcome)));
    }
  }
  for (std::size_t c = 0; c < cases.size(); ++c) {
    out.reference.push_back(find_reference(out.points, cases[c], c));
  }
  return out;
}

std::vector<std::size_t> merge_equal(std::vector<Evaluated>& points,
                                     std::span<const std::size_t> runs) {
  std::vector<Evaluated> out;
  std::vector<std::size_t> place;
  std::map<std::tuple<std::size_t, double, double>, std::size_t> seen;
  for (auto& point : points) {
    const auto& s = point.simulation;
    const auto [at, is_new] =
        seen.try_emplace({runs[point.case_number], s.iteration.value, s.memory.value}, out.size());
    place.push_back(at->second);
    if (is_new) {
      out.push_back(std::move(point));
      continue;
    }
    auto& first = out[at->second];
    if (is_simpler(point.name, first.name)) {
      point.same_as = std::exchange(first.same_as, {});
      std::swap(first, point);
    }
    // Several cases may have the same strategy.
    const bool is_listed = point.name == first.name ||
                           std::ranges::find(first.same_as, point.name) != first.same_as.end();
    if (!is_listed) first.same_as.push_back(std::move(point.name));
  }
  points = std::move(out);
  return place;
}

std::vector<std::size_t> rank_by_throughput(std::span<const Evaluated> points) {
  std::vector<std::size_t> out(points.size());
  std::iota(out.begin(), out.end(), 0U);
  std::ranges::stable_sort(out, std::greater{},
                           [&](std::size_t i) { return points[i].throughput; });
  return out;
}

std::vector<std::size_t> find_pareto_front(std::span<const Evaluated> points,
                                           std::span<const std::size_t> among) {
  std::vector<std::size_t> order(among.begin(), among.end());
  const auto key = [&](std::size_t i) {
    return std::pair(points[i].simulation.memory, -points[i].throughput);
  };
  std::ranges::stable_sort(order, {}, key);
  std::vector<std::size_t> out;
  for (auto i : order) {
    const bool faster = out.empty() || points[i].throughput > points[out.back()].throughput;
    if (faster || key(i) == key(out.back())) out.push_back(i);
  }
  std::ranges::sort(out);
  return out;
}

std::vector<std::size_t> list_points(const Exploration& exploration) {
  std::vector<std::size_t> out(exploration.points.size());
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

std::vector<std::size_t> list_case_points(const Exploration& exploration, std::size_t case_number) {
  auto out = list_points(exploration);
  std::erase_if(out,
                [&](std::size_t i) { return exploration.points[i].case_number != case_number; });
  return out;
}

std::optional<std::size_t> find_fastest(std::span<const Evaluated> points,
                                        std::span<const std::size_t> among,
                                        MemoryConstraint memory) {
  std::optional<std::size_t> best;
  for (auto i : among) {
    if (memory == MemoryConstraint::kLimited && !points[i].feasible) continue;
    if (!best || points[i].throughput > points[*best].throughput) best = i;
  }
  return best;
}

}  // namespace tandem::search
