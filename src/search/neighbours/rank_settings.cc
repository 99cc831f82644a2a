#include "search/neighbours/rank_settings.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "lower/schedule_actions.h"
#include "search/limits.h"
#include "search/neighbours/partial_saving.h"
#include "strategies/pipeline.h"
#include "strategies/recomputation.h"
#include "strategies/stages.h"

namespace tandem::search {

namespace {

using strategies::Family;
using strategies::Setting;

struct Option {
  Setting setting;
  double time = 0;   // time of the whole step under this setting, in seconds
  double peak = 0;   // memory of the first rank, in bytes
  double saved = 0;  // part of `peak` that is saved for backward
};

bool differ_in_recomputation_only(Setting a, const Setting& b) {
  a.recompute = b.recompute;
  return a == b;
}

// The mix of one rank: the first `share` of its operators as in option `saving`, the others as in
// `faster`.
struct RankMix {
  std::size_t saving = 0;
  std::size_t faster = 0;
  double share = 1;
  double time = 0;
};

// A pipeline, and the settings that its ranks may have.
struct Base {
  std::vector<Option> options;  // the first one fits on all ranks
  std::vector<RankMix> ranks;
  double balance = 1;  // time of balanced stages over that of stages with equal layer counts
  double predicted = 0;
};

// Returns settings that ranks may mix with `base`: other tensor, context and data parallel groups
// with as many devices in all, and other recomputation.
std::vector<Setting> list_mixable_settings(const Setting& base, const strategies::Problem& problem,
                                           std::int64_t batch) {
  std::vector<Setting> spread;
  if (batch % (base.dp.value_or(1) * base.micro.value_or(1)) == 0) spread.push_back(base);
  const bool is_plain = base.family == Family::kMegatron && base.tp.size() == 1 && base.dp;
  if (is_plain && base.pp > 1) {
    const auto devices = base.tp[0] * *base.dp * base.cp;
    for (const auto& [tp, mask] : strategies::list_tensor_groups(problem.digits)) {
      if (tp > limits::kMixMoreDevices * base.tp[0]) break;
      for (std::int64_t cp = 1; cp <= (base.cp > 1 ? limits::kMixMoreDevices * base.cp : 1); ++cp) {
        if (devices % (tp * cp) != 0) continue;
        auto setting = base;
        setting.tp = {tp};
        setting.cp = cp;
        setting.dp = devices / tp / cp;
        if (batch % (*setting.dp * base.micro.value_or(1)) != 0) continue;
        for (const bool sp : {false, true}) {
          if (sp ? tp == 1 || !problem.has_sequence() : tp > 1 && base.sp) continue;
          setting.sp = sp;
          if (std::ranges::find(spread, setting) == spread.end()) spread.push_back(setting);
        }
      }
    }
  }
  std::vector<Setting> out;
  for (auto& setting : spread) {
    for (const auto recompute : strategies::kRecomputations) {
      setting.recompute = recompute;
      out.push_back(setting);
    }
  }
  return out;
}

class Mixer {
 public:
  Mixer(CandidatePool& pool, const strategies::Problem& problem, const MayWin& may_win)
      : pool_(pool), problem_(problem), may_win_(may_win) {}

  // Chooses a mix for every rank by the options' memory. Returns whether the mix may gain time.
  [[nodiscard]] bool predict(Base& base) const {
    const auto& setting = base.options[0].setting;
    const auto in_flight = count_micro_batches_in_flight(setting);
    const auto usable = compute_usable_by_rank(setting.pp);
    base.balance = compute_balance_gain(setting);
    choose_mixes(base, in_flight, usable, std::vector<double>(in_flight.size()));
    return base.predicted < limits::kWorthMixing * base.options[0].time;
  }

  // Corrects the choice by the memory of the lowered program until it fits, and simulates it.
  // Balanced stages may need cuts where the operators allow none; then it also tries stages with
  // equal layer counts.
  void enter(Base& base) {
    const auto found = enter(base, true);
    if (!found || found->value > limits::kMixRounded * base.predicted) (void)enter(base, false);
  }

 private:
  // Returns the step time, or nullopt if no mix fits. `balances`: each rank gets as many operations
  // as it has time for.
  std::optional<Seconds> enter(Base& base, bool balances) {
    const auto& setting = base.options[0].setting;
    const auto in_flight = count_micro_batches_in_flight(setting);
    const auto usable = compute_usable_by_rank(setting.pp);
    std::vector<double> off(in_flight.size());
    std::vector<int> times_over(in_flight.size());
    for (int i = 0; i < limits::kMixCorrections && !pool_.is_over(); ++i) {
      choose_mixes(base, in_flight, usable, off);
      const auto candidate = make_mixed_candidate(base, balances);
      if (!candidate || !may_win_(candidate->choices)) return std::nullopt;
      const auto needs = compute_memory_by_rank(*candidate);
      bool fits = true;
      for (std::size_t r = 0; r < needs.size(); ++r) {
        const auto over = std::max(needs[r] - usable[r], 0.0);
        fits = fits && over == 0;
        const auto more = needs[r] - predict_memory(base, base.ranks[r], in_flight, r);
        // From the second time on, a correction that was too small is not tried again, and
        // corrections grow: a share of few operators only changes by whole operators.
        off[r] = i == 0 ? more : std::max(off[r], more) + times_over[r] * over;
        if (over > 0) ++times_over[r];
      }
      if (!fits) continue;
      const auto costed = pool_.enter({*candidate})[0];
      return costed ? std::optional(costed->simulation.iteration) : std::nullopt;
    }
    return std::nullopt;
  }

  // Returns the time of the slowest rank of stages balanced by operations, relative to that of
  // stages with equal layer counts. Example: 64 layers and a head that costs 4 layers, on 4 ranks.
  // Equal counts give 16, 16, 16 and 20, balanced stages 17 each: 17 / 20.
  [[nodiscard]] double compute_balance_gain(const Setting& setting) const {
    if (setting.pp == 1) return 1;
    const auto ranks = strategies::find_rank_digits(problem_.digits, setting.pp).value();
    const auto stages = setting.pp * setting.interleave;
    const std::vector<double> pace(static_cast<std::size_t>(setting.pp), 1);
    const auto even = strategies::assign_stages(problem_, stages, ranks, {}, setting.ends);
    const auto balanced = strategies::assign_stages(problem_, stages, ranks, {}, {}, pace);
    if (!even || !balanced) return 1;
    return std::min(1.0, count_slowest_operations(*balanced, pace.size()) /
                             count_slowest_operations(*even, pace.size()));
  }
  [[nodiscard]] double count_slowest_operations(const std::vector<std::uint16_t>& stage,
                                                std::size_t ranks) const {
    std::vector<double> out(ranks);
    for (std::size_t n = 0; n < stage.size(); ++n) {
      if (strategies::is_operator(problem_, n)) {
        out[stage[n] % ranks] += problem_.nodes[n].signature.flops.value;
      }
    }
    return std::ranges::max(out);
  }

  // Returns, by rank, the number of forward passes before its first backward pass.
  static std::vector<double> count_micro_batches_in_flight(const Setting& setting) {
    plan::Schedule schedule{.order = setting.order,
                            .micro_batches = setting.micro.value_or(1),
                            .stages = setting.pp * setting.interleave};
    if (setting.interleave > 1) schedule.order = plan::Order::kInterleaved;
    std::vector<double> out;
    for (std::int64_t rank = 0; rank < setting.pp; ++rank) {
      double count = 0;
      for (const auto& turn : lower::list_actions(schedule, setting.pp, rank)) {
        if (turn.phase != lower::Phase::kForward) break;
        ++count;
      }
      out.push_back(count);
    }
    return out;
  }

  // Returns, by rank, the bytes that its devices may use.
  [[nodiscard]] std::vector<double> compute_usable_by_rank(std::int64_t pp) const {
    const auto& by_group = pool_.result().limits;
    std::vector<double> out(static_cast<std::size_t>(pp), by_group[0].value);
    if (pool_.has_equal_devices()) return out;
    std::ranges::fill(out, std::numeric_limits<double>::infinity());
    const auto& digits = problem_.digits;
    const auto ranks = strategies::find_rank_digits(digits, pp).value();
    for (std::int64_t device = 0; device < digits.devices(); ++device) {
      auto& least = out[static_cast<std::size_t>(digits.rank_in_group(device, ranks))];
      least = std::min(least, by_group[pool_.machine().find_group(device)].value);
    }
    return out;
  }

  static double predict_memory(const Option& option, const std::vector<double>& in_flight,
                               std::size_t rank) {
    return option.peak - option.saved * (1 - in_flight[rank] / in_flight[0]);
  }
  static double predict_memory(const Base& base, const RankMix& mix,
                               const std::vector<double>& in_flight, std::size_t rank) {
    return mix.share * predict_memory(base.options[mix.saving], in_flight, rank) +
           (1 - mix.share) * predict_memory(base.options[mix.faster], in_flight, rank);
  }

  // Chooses the fastest mix of every rank. `off`: by rank, the bytes that it needs beyond the
  // prediction.
  static void choose_mixes(Base& base, const std::vector<double>& in_flight,
                           const std::vector<double>& usable, const std::vector<double>& off) {
    base.ranks.clear();
    double rate = 0;
    for (std::size_t r = 0; r < in_flight.size(); ++r) {
      const auto limit = usable[r] * (1 - limits::kMixMemoryStep) - off[r];
      base.ranks.push_back(find_fastest_mix(base.options, in_flight, r, limit));
      rate += 1 / base.ranks[r].time;
    }
    base.predicted = base.balance * static_cast<double>(in_flight.size()) / rate;
  }

  static RankMix find_fastest_mix(const std::vector<Option>& options,
                                  const std::vector<double>& in_flight, std::size_t rank,
                                  double limit) {
    RankMix out{.time = options[0].time};
    const auto consider = [&](const RankMix& mix) {
      if (mix.time < out.time) out = mix;
    };
    for (std::size_t i = 0; i < options.size(); ++i) {
      const auto needs = predict_memory(options[i], in_flight, rank);
      if (needs > limit && i > 0) continue;
      consider({.saving = i, .faster = i, .share = 1, .time = options[i].time});
      for (std::size_t j = 0; j < options.size(); ++j) {
        if (options[j].time >= options[i].time ||
            !differ_in_recomputation_only(options[i].setting, options[j].setting)) {
          continue;
        }
        const auto more = predict_memory(options[j], in_flight, rank);
        if (more <= limit || more <= needs) continue;
        const auto share = std::clamp((more - limit) / (more - needs), 0.0, 1.0);
        consider({.saving = i,
                  .faster = j,
                  .share = share,
                  .time = share * options[i].time + (1 - share) * options[j].time});
      }
    }
    return out;
  }

  [[nodiscard]] std::optional<Candidate> make_mixed_candidate(const Base& base,
                                                              bool balances) const {
    std::vector<double> pace;
    for (const auto& mix : base.ranks) pace.push_back(mix.time / base.ranks[0].time);
    if (!balances) pace.clear();
    std::map<std::size_t, strategies::StrategyStep> made;  // by option
    std::vector<StageMix> by_rank;
    for (const auto& mix : base.ranks) {
      for (const auto option : {mix.saving, mix.faster}) {
        if (made.contains(option)) continue;
        auto step = make_paced_step(base.options[option].setting, pace);
        if (!step) return std::nullopt;
        made.emplace(option, std::move(*step));
      }
      by_rank.push_back({&made.at(mix.saving).choices, &made.at(mix.faster).choices, mix.share});
    }
    const auto& schedule = made.at(base.ranks[0].saving).schedule;
    std::vector<StageMix> by_stage;
    for (std::int64_t s = 0; s < schedule.stages; ++s) {
      by_stage.push_back(by_rank[static_cast<std::size_t>(s) % by_rank.size()]);
    }
    const auto& first = base.options[base.ranks[0].saving].setting;
    if (made.size() == 1 && !balances) return std::nullopt;  // the plain setting
    const bool only_recomputes = std::ranges::all_of(made, [&](const auto& entry) {
      return differ_in_recomputation_only(base.options[entry.first].setting, first);
    });
    const char* kind = made.size() == 1 ? " balanced" : only_recomputes ? " in part" : " by rank";
    Candidate out{.name = "search:" + to_text(first) + kind,
                  .choices = mix_by_stage(problem_.model, by_stage),
                  .schedule = schedule};
    if (only_recomputes) {
      out.setting = first;
      out.is_in_part = true;
    }
    return out;
  }

  [[nodiscard]] std::optional<strategies::StrategyStep> make_paced_step(
      const Setting& setting, const std::vector<double>& pace) const {
    auto pass = make_pass(setting, problem_);
    auto* choices = std::get_if<strategies::Choices>(&pass);
    if (choices == nullptr) return std::nullopt;
    auto step = make_step(setting, problem_, std::move(*choices), {}, pace);
    auto* out = std::get_if<strategies::StrategyStep>(&step);
    if (out == nullptr) return std::nullopt;
    return std::move(*out);
  }

  [[nodiscard]] std::vector<double> compute_memory_by_rank(const Candidate& candidate) const {
    const auto& machine = pool_.machine();
    const machine::Digits digits(machine, candidate.schedule.micro_batches);
    auto schedule = candidate.schedule;
    schedule.precision = pool_.options().precision;
    const auto mapped = plan::parallelize(problem_.model, digits, candidate.choices, schedule);
    const auto program =
        lower::lower_unchecked(mapped, digits, machine.device.software, pool_.options().optimizer);
    std::vector<double> out;
    for (const auto& memory : predict::compute_memory_by_rank(program, machine)) {
      out.push_back(memory.peak.value);
    }
    return out;
  }

  CandidatePool& pool_;
  const strategies::Problem& problem_;
  const MayWin& may_win_;
};

Option make_option(const Evaluated& e) {
  const auto& memory = e.simulation.group_memory[0];
  return {*e.setting, e.time().value, memory.peak.value, memory.saved.value};
}

// Returns the fastest settings that fit, at most `most`, one for each pipeline.
std::vector<Setting> choose_bases(const std::vector<Evaluated>& evaluated, std::size_t most) {
  std::vector<const Evaluated*> fitting;
  for (const auto& e : evaluated) {
    if (e.setting && e.feasible && !e.setting->stale) fitting.push_back(&e);
  }
  std::ranges::stable_sort(fitting, {}, &Evaluated::time);
  std::vector<Setting> out;
  std::set<std::string> seen;
  for (const auto* e : fitting) {
    if (out.size() == most || e->time() > limits::kMixNearBest * fitting[0]->time()) break;
    auto pipeline = *e->setting;
    pipeline.recompute = strategies::Recompute::kNone;
    if (pipeline.family == Family::kMegatron && pipeline.pp > 1) {
      pipeline.tp = {};
      pipeline.dp = {};
      pipeline.cp = pipeline.cp > 1 ? 2 : 1;
      pipeline.sp = false;
    }
    if (seen.insert(to_text(pipeline)).second) out.push_back(*e->setting);
  }
  return out;
}

// Returns `bases` and, for the first `most` of them, copies with half and twice as many
// micro-batches.
std::vector<Setting> add_micro_batch_variants(std::vector<Setting> bases, std::int64_t batch,
                                              std::size_t most) {
  const auto add = [&](Setting setting, std::int64_t micro) {
    const bool is_even = setting.interleave == 1 || micro % setting.pp == 0;
    if (batch % micro != 0 || !is_even) return;
    setting.micro = micro;
    if (std::ranges::find(bases, setting) == bases.end()) bases.push_back(setting);
  };
  for (std::size_t i = 0; i < std::min(most, bases.size()); ++i) {
    const auto setting = bases[i];
    if (!setting.micro || setting.pp == 1) continue;
    if (*setting.micro % 2 == 0) add(setting, *setting.micro / 2);
    add(setting, *setting.micro * 2);
  }
  return bases;
}

}  // namespace

void mix_settings_by_rank(CandidatePool& pool, const strategies::Problem& problem,
                          const std::vector<Evaluated>& evaluated, const Try& estimate,
                          const MayWin& may_win) {
  Mixer mixer(pool, problem, may_win);
  const auto batch = strategies::find_batch_size(problem).value_or(1);
  std::vector<Base> bases;
  const bool is_large = pool.is_large();
  const auto settings = add_micro_batch_variants(
      choose_bases(evaluated, is_large ? limits::kLargeMixBases : limits::kMixBases), batch,
      is_large ? limits::kLargeMixVaried : limits::kMixVaried);
  for (const auto& setting : settings) {
    if (pool.is_over()) return;
    if (setting.micro.value_or(1) > get_max_micro_batches(problem.model)) continue;
    auto known = estimate(list_mixable_settings(setting, problem, batch));
    std::ranges::stable_sort(known, {}, &Evaluated::time);
    const auto fitting = std::ranges::find(known, true, &Evaluated::feasible);
    if (fitting == known.end()) continue;
    Base base;
    std::transform(known.begin(), fitting + 1, std::back_inserter(base.options), make_option);
    std::swap(base.options.front(), base.options.back());
    if (mixer.predict(base)) bases.push_back(std::move(base));
  }
  std::ranges::stable_sort(bases, {}, &Base::predicted);
  bases.resize(std::min(bases.size(), limits::kMixesTried));
  for (auto& base : bases) {
    const auto& best = pool.result().best;
    if (best && base.predicted > limits::kWorthMixing * best->simulation.iteration.value) return;
    mixer.enter(base);
  }
}

}  // namespace tandem::search
