#include "search/baselines.h"

#include <algorithm>

#include "search/least_memory.h"
#include "search/limits.h"
#include "strategies/recomputation.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Setting;
using strategies::Strategy;

// Returns a rough estimate of what a strategy's fullest rank holds: weights and optimizer state as
// stored, and results saved for backward.
Bytes estimate_needed_memory(const Strategy& strategy, const strategies::Problem& problem,
                             const CandidatePool& pool) {
  const auto& schedule = strategy.schedule;
  const auto& options = pool.options();
  const machine::Digits digits(pool.machine(), schedule.micro_batches);
  const auto share = [&](const machine::Layout& layout) {
    double out = 1;
    for (std::size_t i = 0; i < layout.count(); ++i) {
      if (layout[i].is_dim()) out /= static_cast<double>(digits[i].size);
    }
    return out;
  };
  std::vector<Bytes> by_rank(static_cast<std::size_t>(strategy.setting.pp));
  for (auto id : problem.model.ids()) {
    const auto& node = problem.model.node(id);
    const auto& choice = strategy.choices[id.index()];
    auto& held = by_rank[choice.stage % by_rank.size()];
    if (is_weight(node)) {
      held +=
          compute_stored_bytes(node, options.optimizer, options.precision) * share(choice.source);
    } else if (node.op.role() == ops::Role::kCompute && !choice.recompute) {
      const auto layout =
          compute_output_layout(problem.nodes[id.index()].signature, choice.node, digits.count());
      const auto in_flight = std::min(schedule.micro_batches, schedule.stages - choice.stage);
      held += node.type.whole_bytes() * (static_cast<double>(in_flight) * share(layout));
    }
  }
  return std::ranges::max(by_rank);
}

class Baselines {
 public:
  Baselines(CandidatePool& pool, const strategies::Problem& problem,
            const std::vector<Evaluated>& known, const Try& estimate, const MayWin& may_win)
      : pool_(pool),
        problem_(problem),
        known_(known),
        estimate_(estimate),
        may_win_(may_win),
        batch_(strategies::find_batch_size(problem).value_or(1)) {}

  void fit() {
    const auto bases = list_baseline_settings(problem_);
    for (auto& row : pool_.result().baselines) {
      std::vector<Setting> own;
      for (const auto& base : bases) {
        if (name(base.family) == row.family) own.push_back(base);
      }
      if (!own.empty() && !pool_.is_over()) fit_row(row, own);
    }
  }

 private:
  void fit_row(Evaluated& row, const std::vector<Setting>& bases) {
    const auto family = bases[0].family;
    auto settings = list_known(family);
    if (!row.feasible && !is_any_feasible(settings)) add_savings(bases, settings);
    std::ranges::stable_sort(settings, is_better);
    std::size_t simulated = 0;
    for (const auto& e : settings) {
      if (!e.feasible || simulated == limits::kBaselineSimulated) break;
      const auto time = e.time();
      if (row.feasible && time > limits::kFasterRow * row.simulation.iteration) break;
      // Simulating a large network takes long, and the row is not the plan.
      const bool is_close = pool_.is_large() && !e.is_rough();
      const auto costed = is_close ? std::optional(e) : simulate(*e.setting, simulated);
      if (costed && is_better(*costed, row)) replace(row, *costed);
    }
    const auto least =
        std::ranges::min_element(settings, {}, [](const Evaluated& e) { return e.over; });
    if (!row.feasible && least != settings.end() && least->over < row.over) {
      replace(row, *least);
      row.feasible = false;  // an estimate may be a little too low
    }
  }

  static void replace(Evaluated& row, const Evaluated& by) {
    row.name = by.name;
    row.mapped = {};
    row.simulation = by.simulation;
    row.over = by.over;
    row.feasible = by.feasible;
  }

  static bool is_any_feasible(const std::vector<Evaluated>& settings) {
    return std::ranges::any_of(settings, [](const Evaluated& e) { return e.feasible; });
  }

  // Returns the known settings of a family. Simulations come before estimates of the same setting.
  [[nodiscard]] std::vector<Evaluated> list_known(Family family) const {
    std::vector<Evaluated> out;
    for (const auto* some : {&pool_.simulated(), &known_}) {
      for (auto e : *some) {
        // The grid lists deepspeed:zero=3 only as fsdp, its equivalent.
        if (family == Family::kDeepspeed && e.setting->family == Family::kFsdp) {
          e.setting->family = family;
          e.setting->zero = 3;
          e.name = to_text(*e.setting);
        }
        if (e.setting->family != family) continue;
        if (std::ranges::find(out, e.setting, &Evaluated::setting) == out.end()) out.push_back(e);
      }
    }
    return out;
  }

  // Adds settings with each kind of recomputation and the fewest micro-batches that fit. Megatron
  // has none to add, since the grid contains all of its settings.
  void add_savings(const std::vector<Setting>& bases, std::vector<Evaluated>& out) {
    std::vector<Strategy> unknown;
    for (const auto& base : bases) {
      if (base.family == Family::kMegatron) return;
      for (const auto what : strategies::kRecomputations) {
        auto setting = base;
        setting.recompute = what;
        if (estimate_) {
          add_estimates(std::move(setting), out);
        } else if (auto strategy = find_fitting(std::move(setting))) {
          unknown.push_back(*std::move(strategy));
        }
      }
    }
    // Fewest micro-batches first.
    std::ranges::stable_sort(unknown, {}, [](const auto& s) { return s.schedule.micro_batches; });
    std::size_t simulated = 0;
    for (const auto& strategy : unknown) {
      if (simulated == (pool_.is_large() ? 1 : limits::kBaselineSimulated)) return;
      if (auto evaluated = simulate(strategy.setting, simulated)) {
        out.push_back(*std::move(evaluated));
      }
    }
  }

  void add_estimates(Setting setting, std::vector<Evaluated>& out) const {
    for (std::int64_t n = 1; n <= batch_; n *= 2) {
      if (n > 1) setting.micro = n;
      auto estimated = estimate_({setting});
      if (estimated.empty()) return;
      out.push_back(std::move(estimated[0]));
      if (out.back().feasible) return;
    }
  }

  // Returns the strategy with the fewest micro-batches that fits by the rough estimate.
  std::optional<Strategy> find_fitting(Setting setting) const {
    const auto limit = std::ranges::max(pool_.result().limits);
    for (std::int64_t n = 1; n <= batch_; n *= 2) {
      if (n > 1) setting.micro = n;
      auto made = make_strategy(setting, problem_);
      auto* strategy = std::get_if<Strategy>(&made);
      if (strategy == nullptr) return std::nullopt;
      if (estimate_needed_memory(*strategy, problem_, pool_) <= limit) return std::move(*strategy);
    }
    return std::nullopt;
  }

  std::optional<Evaluated> simulate(const Setting& setting, std::size_t& simulated) {
    const auto is_it = [&](const Evaluated& e) { return e.setting == setting; };
    const auto at = std::ranges::find_if(pool_.simulated(), is_it);
    if (at != pool_.simulated().end()) return *at;
    auto made = make_strategy(setting, problem_);
    auto* strategy = std::get_if<Strategy>(&made);
    if (strategy == nullptr) return std::nullopt;
    ++simulated;
    const bool may_win = may_win_(strategy->choices);
    const auto costed = pool_.enter({make_candidate(std::move(*strategy), may_win)})[0];
    return costed ? std::optional(summarize(*costed)) : std::nullopt;
  }

  CandidatePool& pool_;
  const strategies::Problem& problem_;
  const std::vector<Evaluated>& known_;
  const Try& estimate_;
  const MayWin& may_win_;
  std::int64_t batch_;
};

}  // namespace

void fit_baselines(CandidatePool& pool, const strategies::Problem& problem,
                   const std::vector<Evaluated>& known, const Try& estimate,
                   const MayWin& may_win) {
  Baselines(pool, problem, known, estimate, may_win).fit();
}

}  // namespace tandem::search
