#include "strategies/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "strategies/families.h"
#include "strategies/pipeline.h"

namespace tandem::strategies {

using machine::Digits;

Made make_pass(const Setting& setting, const Problem& problem) {
  const auto& family = get_family(setting.family);
  if (!family.suits(problem)) {
    return Refusal{
        fmt::format("requires {}, but {} has none", family.required->name, problem.model.name()),
        ""};
  }
  return family.make(setting, problem);
}

std::vector<Setting> complete(const Setting& setting, const Problem& problem) {
  const auto& family = get_family(setting.family);
  if (family.complete == nullptr || !family.suits(problem)) return {setting};
  return family.complete(setting, problem);
}

namespace {

std::vector<Setting> list_delayed_settings(const Problem& problem) {
  std::vector<Setting> out;
  for (auto pp : list_rank_counts(problem.digits)) {
    if (pp == 1) continue;
    for (const bool sp : {false, true}) {
      if (sp && !problem.has_sequence()) continue;
      std::ranges::copy(
          complete({.family = Family::kMegatron, .sp = sp, .pp = pp, .stale = true}, problem),
          std::back_inserter(out));
    }
  }
  return out;
}

}  // namespace

std::vector<Setting> list_baseline_settings(const Problem& problem, plan::Semantics semantics) {
  if (semantics == plan::Semantics::kDelayed1) return list_delayed_settings(problem);
  // All are the same on one device.
  if (problem.digits.count() == 0) return {{.family = Family::kDp}};
  std::vector<Setting> out;
  for (const auto& family : get_families()) {
    if (!family.suits(problem)) continue;
    const auto open = family.list_baselines == nullptr
                          ? std::vector<Setting>{{.family = family.family}}
                          : family.list_baselines(problem);
    for (const auto& setting : open) {
      std::ranges::copy(complete(setting, problem), std::back_inserter(out));
    }
  }
  return out;
}

std::vector<Setting> list_madmax_settings(const Problem& problem) {
  std::vector<Setting> out = {{.family = Family::kMadmax}};
  for (auto kind : kLayerKinds) {
    if (kind == LayerKind::kEmbedding || !problem.has(kind)) continue;
    const auto before = std::move(out);
    out.clear();
    for (const auto& setting : before) {
      for (std::size_t i = 0; i < kShardingNames.size() * kShardingNames.size(); ++i) {
        const LevelSharding sharding{static_cast<Sharding>(i / kShardingNames.size()),
                                     static_cast<Sharding>(i % kShardingNames.size())};
        out.push_back(setting);
        if (sharding != get_default_sharding(kind)) out.back().layers[kind] = sharding;
      }
    }
  }
  return out;
}

std::variant<Strategy, Refusal> make_strategy(const Setting& setting, const Problem& problem) {
  auto made = make_pass(setting, problem);
  if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
  auto step = make_step(setting, problem, std::get<Choices>(std::move(made)));
  if (auto* refusal = std::get_if<Refusal>(&step)) return std::move(*refusal);
  auto& [choices, schedule] = std::get<StrategyStep>(step);
  return Strategy{setting, to_text(setting), std::move(choices), schedule};
}

std::vector<Strategy> make_strategies(const std::vector<Setting>& settings,
                                      const Problem& problem) {
  std::vector<Strategy> out;
  for (const auto& setting : settings) {
    auto made = make_strategy(setting, problem);
    if (auto* strategy = std::get_if<Strategy>(&made)) out.push_back(std::move(*strategy));
  }
  return out;
}

std::vector<Strategy> make_named_strategies(const std::string& name, const graph::Graph& model,
                                            const Digits& digits, plan::Semantics semantics,
                                            const FlagSettings& flags) {
  const Problem problem(model, digits);
  std::vector<Setting> settings;
  if (name == "best_baseline") {
    if (!flags.schedule.empty()) {
      throw UserError("flag", "--schedule",
                      "sets the order of one pipeline, which best_baseline does not have",
                      "use --strategy megatron:pp=N");
    }
    settings = list_baseline_settings(problem, semantics);
    if (!flags.recompute.empty()) {
      const auto recompute = parse_recompute(flags.recompute).value();
      for (auto& setting : settings) setting.recompute = recompute;
    }
  } else {
    const auto setting = parse_setting(name, flags);
    if (setting.stale && semantics == plan::Semantics::kSynchronous) {
      throw UserError(
          "strategy", name,
          "delays weight updates by one step, so training differs from that on one device",
          "use --stale-weights to allow it");
    }
    settings = complete(setting, problem);
  }
  std::vector<Strategy> out;
  Refusal refused;
  if (settings.empty()) refused.message = "the devices of this machine cannot form a pipeline";
  for (const auto& setting : settings) {
    auto made = make_strategy(setting, problem);
    if (auto* strategy = std::get_if<Strategy>(&made)) {
      out.push_back(std::move(*strategy));
    } else if (refused.message.empty()) {
      refused = std::get<Refusal>(std::move(made));
    }
  }
  if (out.empty()) throw UserError("strategy", name, refused.message, refused.hint);
  return out;
}

}  // namespace tandem::strategies
