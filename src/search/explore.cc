#include "search/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "base/error.h"

namespace tandem::search {

namespace {

using strategies::Setting;

struct Work {
  const Case* on = nullptr;
  const Setting* setting = nullptr;
  std::size_t case_number = 0;
};
using Outcome = std::variant<Point, Refused>;

std::string reason(const std::string& message, const std::string& hint) {
  return hint.empty() ? message : fmt::format("{} ({})", message, hint);
}

// Threads take the next piece of work; results lie by its number.
class Team {
 public:
  Team(const std::vector<Work>& work, const ExploreOptions& options)
      : work_(work), options_(options), outcomes_(work.size()) {}

  std::vector<std::optional<Outcome>> run() {
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < std::min(options_.threads, work_.size()); ++i) {
        others.emplace_back([this] { take_all(false); });
      }
      take_all(true);
    }
    if (failure_) std::rethrow_exception(failure_);
    return std::move(outcomes_);
  }

 private:
  void take_all(bool reports) {
    for (std::size_t i = next_++; i < work_.size(); i = next_++) {
      if (options_.stop && options_.stop()) return;
      try {
        auto outcome = evaluate(*work_[i].on, *work_[i].setting);
        std::visit([&](auto& o) { o.case_number = work_[i].case_number; }, outcome);
        outcomes_[i] = std::move(outcome);
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        next_ = work_.size();
      }
      const auto done = ++done_;
      if (reports && options_.progress) options_.progress(done, work_.size());
    }
  }

  const std::vector<Work>& work_;
  const ExploreOptions& options_;
  std::vector<std::optional<Outcome>> outcomes_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> done_ = 0;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

double Point::exposed_share() const {
  Seconds communication;
  for (const auto& [kind, time] : simulation.serialized) {
    if (kind != "compute" && kind != "embedding") communication += time;
  }
  return communication > Seconds{} ? simulation.exposed_comm / communication : 0;
}

std::variant<Point, Refused> evaluate(const Case& on, const Setting& setting) {
  try {
    auto made = strategies::make_strategy(setting, *on.problem);
    if (const auto* refusal = std::get_if<strategies::Refusal>(&made)) {
      return Refused{0, to_text(setting), reason(refusal->message, refusal->hint)};
    }
    auto& strategy = std::get<strategies::Strategy>(made);
    if (on.precision) strategy.schedule.precision = on.precision(setting.family);
    auto costed = cost_choices(on.problem->model, *on.machine, strategy.name, strategy.choices,
                               strategy.schedule, on.optimizer, on.limits, on.phase);
    Point out{.strategy = std::move(costed.name),
              .simulation = std::move(costed.simulation),
              .over = costed.over,
              .feasible = costed.feasible};
    out.simulation.timeline = {};
    out.throughput = static_cast<double>(on.batch) / out.simulation.iteration.value;
    return out;
  } catch (const UserError& error) {
    return Refused{0, to_text(setting), reason(error.message, error.hint)};
  }
}

Exploration explore(const std::vector<Case>& cases,
                    const std::vector<std::vector<Setting>>& settings,
                    const ExploreOptions& options) {
  CHECK(cases.size() == settings.size(), cases.size());
  std::vector<Work> work;
  for (std::size_t c = 0; c < cases.size(); ++c) {
    for (const auto& setting : settings[c]) work.push_back({&cases[c], &setting, c});
  }
  Exploration out{.points = {}, .refused = {}, .asked = work.size()};
  for (auto& outcome : Team(work, options).run()) {
    if (!outcome) continue;
    if (auto* point = std::get_if<Point>(&*outcome)) {
      out.points.push_back(std::move(*point));
    } else {
      out.refused.push_back(std::get<Refused>(std::move(*outcome)));
    }
  }
  return out;
}

std::vector<std::size_t> pareto_front(std::span<const Point> points,
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

std::vector<std::size_t> all_points(const Exploration& exploration) {
  std::vector<std::size_t> out(exploration.points.size());
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

std::vector<std::size_t> points_of(const Exploration& exploration, std::size_t case_number) {
  auto out = all_points(exploration);
  std::erase_if(out,
                [&](std::size_t i) { return exploration.points[i].case_number != case_number; });
  return out;
}

std::optional<std::size_t> fastest(std::span<const Point> points,
                                   std::span<const std::size_t> among, Memory memory) {
  std::optional<std::size_t> best;
  for (auto i : among) {
    if (memory == Memory::kLimited && !points[i].feasible) continue;
    if (!best || points[i].throughput > points[*best].throughput) best = i;
  }
  return best;
}

std::optional<std::size_t> reference(const Exploration& exploration, const Case& on,
                                     std::size_t case_number) {
  const auto* name = on.problem->has(strategies::LayerKind::kEmbedding) ? "madmax" : "fsdp";
  for (auto i : points_of(exploration, case_number)) {
    if (exploration.points[i].strategy == name) return i;
  }
  return std::nullopt;
}

}  // namespace tandem::search
