#include "search/neighbours/partial_saving.h"

#include <algorithm>

#include "search/limits.h"

namespace tandem::search {

std::vector<plan::Choice> mix_by_stage(const graph::Graph& graph,
                                       const std::vector<StageMix>& stages) {
  const auto is_operator = [&](graph::NodeId id) {
    return graph.node(id).op.role() == ops::Role::kCompute;
  };
  const auto stage_of = [&](graph::NodeId id) { return (*stages[0].saving)[id.index()].stage; };
  std::vector<double> operators(stages.size());
  for (auto id : graph.ids()) {
    if (is_operator(id)) operators[stage_of(id)] += 1;
  }
  auto out = *stages[0].faster;
  std::vector<double> before(stages.size());
  std::vector<bool> has_reader(graph.size());
  for (auto id : graph.ids()) {
    if (!is_operator(id)) continue;
    const auto stage = stage_of(id);
    const auto& mix = stages[stage];
    const bool saves = before[stage]++ < mix.share * operators[stage];
    const auto& from = saves ? *mix.saving : *mix.faster;
    out[id.index()] = from[id.index()];
    for (auto input : graph.inputs(id)) {
      if (is_operator(input) || has_reader[input.index()]) continue;
      has_reader[input.index()] = true;
      out[input.index()] = from[input.index()];
    }
  }
  return out;
}

std::vector<plan::Choice> mix_all_stages(const graph::Graph& graph,
                                         const std::vector<plan::Choice>& faster,
                                         const std::vector<plan::Choice>& fits, double share) {
  const auto last = std::ranges::max(fits, {}, &plan::Choice::stage).stage;
  return mix_by_stage(graph, std::vector<StageMix>(last + 1U, {&fits, &faster, share}));
}

// Interpolates, since memory is nearly linear in the share.
void enter_between(CandidatePool& pool, const std::string& name, const EvaluatedCandidate& faster,
                   const EvaluatedCandidate& fits, std::size_t most) {
  const auto& graph = fits.candidate.rewritten ? fits.candidate.rewritten->graph : pool.model();
  auto candidate = fits.candidate;
  candidate.name = name;
  candidate.is_in_part = true;
  double low = 0;
  double high = 1;
  auto over = faster.evaluated.over;
  auto under = fits.evaluated.over;
  for (std::size_t i = 0; i < most && high - low > limits::kShareStep; ++i) {
    const double width = high - low;
    const double guess = low + width * (over / (over - under)) + limits::kShareStep / 2;
    const double share = std::clamp(guess, low + width / 16, high - width / 16);
    candidate.choices =
        mix_all_stages(graph, faster.candidate.choices, fits.candidate.choices, share);
    const auto costed = pool.enter({candidate})[0];
    if (!costed) return;
    if (costed->feasible) {
      high = share;
      under = std::min(costed->over, Bytes{0});
    } else {
      low = share;
      over = costed->over;
    }
  }
}

}  // namespace tandem::search
