#include "strategies/setting_groups.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "strategies/families.h"
#include "strategies/pipeline.h"

namespace tandem::strategies {

namespace {

using machine::Digits;

std::int64_t count_node_devices(const Digits& digits) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (digits[i].level > 0) out *= digits[i].size;
  }
  return out > 1 ? out : digits.devices();
}

// Returns the completions of a Megatron setting with tensor parallelism inside a node, on its
// default digits.
std::vector<Setting> complete_inside_node(const Setting& setting, const Problem& problem) {
  auto out = complete(setting, problem);
  const auto most = count_node_devices(problem.digits);
  std::erase_if(out, [&](const Setting& s) { return s.tp.size() > 1 || s.tp[0] > most; });
  return out;
}

std::vector<Recompute> list_recomputations(const Problem& problem) {
  if (problem.has_sequence()) {
    return {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  }
  return {Recompute::kNone, Recompute::kFull};
}

void append(std::vector<Setting>& out, const std::vector<Setting>& more) {
  for (const auto& setting : more) {
    if (std::ranges::find(out, setting) == out.end()) out.push_back(setting);
  }
}

// Fails for an unknown family. Unlike the message of parse_setting, this one lists the groups, too.
void check_family(const std::string& text) {
  if (parse_family(std::string_view(text).substr(0, text.find(':')))) return;
  throw UserError("strategy", text, "unknown strategy",
                  "expected all, baselines, memory_saving, pipelines, madmax_grid, or one of: " +
                      join(family_names(), ", "));
}

}  // namespace

std::vector<Setting> list_pipeline_settings(const Problem& problem) {
  std::vector<Setting> out;
  const auto recompute = list_recomputations(problem);
  for (std::int64_t pp = 2; pp <= problem.digits.devices(); ++pp) {
    if (problem.digits.devices() % pp != 0 || !find_rank_digits(problem.digits, pp)) continue;
    for (const auto& setting :
         complete_inside_node({.family = Family::kMegatron, .pp = pp}, problem)) {
      for (const bool sp : {false, true}) {
        if (sp && (setting.tp[0] == 1 || !problem.has_sequence())) continue;
        for (const auto how : recompute) {
          out.push_back(setting);
          out.back().sp = sp;
          out.back().recompute = how;
        }
      }
    }
  }
  return out;
}

std::vector<Setting> list_memory_saving_settings(const Problem& problem) {
  std::vector<Setting> bases = {{.family = Family::kDp}, {.family = Family::kFsdp}};
  for (const std::int64_t zero : {1, 2, 3}) {
    bases.push_back({.family = Family::kDeepspeed, .zero = zero});
  }
  const auto sharded = bases.size();
  append(bases, complete_inside_node({.family = Family::kMegatron}, problem));
  if (problem.has_sequence()) {
    append(bases, complete_inside_node({.family = Family::kMegatron, .sp = true}, problem));
  }
  std::vector<Setting> out;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    for (const auto how : list_recomputations(problem)) {
      for (const std::int64_t micro : {1, 4, 16}) {
        if (micro == 1 ? how == Recompute::kNone : i >= sharded) continue;
        out.push_back(bases[i]);
        out.back().recompute = how;
        if (micro > 1) out.back().micro = micro;
      }
    }
  }
  return out;
}

std::vector<Setting> list_reduced_madmax_settings(const Problem& problem) {
  auto out = list_madmax_settings(problem);
  std::erase_if(out, [](const Setting& setting) {
    const auto words = setting.layers.find(LayerKind::kWordEmbedding);
    const auto transformer = setting.layers.find(LayerKind::kTransformer);
    return words != setting.layers.end() &&
           (transformer == setting.layers.end() || words->second != transformer->second);
  });
  return out;
}

std::vector<Setting> list_named_settings(const std::string& name, const Problem& problem) {
  const bool one_device = problem.digits.count() == 0;
  if (name == "baselines" || name == "best_baseline" || (name == "all" && one_device)) {
    return list_baseline_settings(problem);
  }
  if (name == "madmax_grid") return list_reduced_madmax_settings(problem);
  if (name == "pipelines") return list_pipeline_settings(problem);
  if (name == "memory_saving") return list_memory_saving_settings(problem);
  if (name != "all") {
    check_family(name);
    return complete(parse_setting(name), problem);
  }
  auto out = list_baseline_settings(problem);
  append(out, list_memory_saving_settings(problem));
  append(out, list_pipeline_settings(problem));
  append(out, list_reduced_madmax_settings(problem));
  return out;
}

}  // namespace tandem::strategies
