#include "strategies/families.h"

#include <algorithm>
#include <iterator>

#include "strategies/completions.h"

namespace tandem::strategies {

namespace {

constexpr std::string_view kMegatronKeys[] = {
    "tp", "dp", "cp", "sp", "zero", "whole_loss", "pp", "interleave", "ends", "schedule", "stale"};
constexpr std::string_view kDeepspeedKeys[] = {"zero"};
constexpr std::string_view kEpKeys[] = {"ep"};

std::vector<Setting> list_megatron_baselines(const Problem& problem) {
  std::vector<Setting> out = {{.family = Family::kMegatron}};
  if (problem.has_sequence()) out.push_back({.family = Family::kMegatron, .sp = true});
  return out;
}

std::vector<Setting> list_ep_baselines(const Problem& problem) {
  if (find_expert_digits(problem) == 0) return {};  // no level of the machine divides the experts
  return {{.family = Family::kEp}};
}

Made make_ep(const Setting& setting, const Problem& problem) {
  return make_expert_parallel(
      problem, find_dividing_digits(problem.digits, find_expert_digits(problem), *setting.ep));
}

constexpr StrategyFamily kFamilies[] = {
    {.family = Family::kDp,
     .name = "dp",
     .doc = "data parallelism: each device has all weights and a part of the batch",
     .split = FamilySplit::kBatch,
     .make = [](const Setting&, const Problem& p) { return make_data_parallel(p); }},
    {.family = Family::kFsdp,
     .name = "fsdp",
     .doc = "data parallelism with fully sharded weights, gradients and optimizer state (ZeRO-3)",
     .split = FamilySplit::kBatch,
     .make = [](const Setting&, const Problem& p) { return make_fully_sharded(p); }},
    {.family = Family::kMegatron,
     .name = "megatron",
     .doc = "tensor parallelism (column-parallel, then row-parallel weights; attention by heads) "
            "with data, context and pipeline parallelism",
     .split = FamilySplit::kDegrees,
     .make = [](const Setting& s,
                const Problem& p) { return make_megatron(p, make_megatron_parts(s, p.digits)); },
     .complete = complete_megatron,
     .list_baselines = list_megatron_baselines,
     .keys = kMegatronKeys,
     .wide_gradients = true},
    {.family = Family::kDeepspeed,
     .name = "deepspeed",
     .doc = "ZeRO; without `zero` the fastest of stages 1 to 3 that fits",
     .split = FamilySplit::kBatch,
     // strategies/pipeline.cc sets how often weights are gathered and gradients reduced.
     .make =
         [](const Setting& s, const Problem& p) {
           return s.zero == 0 ? make_data_parallel(p) : make_fully_sharded(p);
         },
     .complete = [](const Setting& s, const Problem&) { return complete_deepspeed(s); },
     .keys = kDeepspeedKeys},
    {.family = Family::kExpert,
     .name = "expert",
     .doc =
         "an expert's placement (not mixture of experts): layers with more bytes of weights than "
         "of results are split over all devices, the rest is data parallel",
     .split = FamilySplit::kOperators,
     .make = [](const Setting&, const Problem& p) { return make_expert(p); }},
    {.family = Family::kDlrmHybrid,
     .name = "dlrm_hybrid",
     .doc = "embedding tables are split over all devices, the rest is data parallel",
     .split = FamilySplit::kOperators,
     .make = [](const Setting&, const Problem& p) { return make_dlrm_hybrid(p); },
     .required = RequiredLayers{LayerKind::kEmbedding, "embedding tables"}},
    {.family = Family::kEp,
     .name = "ep",
     .doc = "expert parallelism; the rest is data parallel. Tokens travel by all-to-all",
     .split = FamilySplit::kExperts,
     .make = make_ep,
     .complete = complete_ep,
     .list_baselines = list_ep_baselines,
     .keys = kEpKeys,
     .required = RequiredLayers{LayerKind::kExperts, "experts"}},
    {.family = Family::kMadmax,
     .name = "madmax",
     .doc = "one sharding for each kind of layer, inside a node and across nodes",
     .split = FamilySplit::kLayerKinds,
     .make = [](const Setting& s, const Problem& p) { return make_madmax(p, s.layers); }},
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < std::size(kFamilies); ++i) {
    if (static_cast<std::size_t>(kFamilies[i].family) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

}  // namespace

std::span<const StrategyFamily> get_families() { return kFamilies; }

const StrategyFamily& get_family(Family family) {
  return kFamilies[static_cast<std::size_t>(family)];
}

std::optional<Family> parse_family(std::string_view name) {
  const auto* at = std::ranges::find(kFamilies, name, &StrategyFamily::name);
  return at == std::end(kFamilies) ? std::nullopt : std::optional(at->family);
}

}  // namespace tandem::strategies
