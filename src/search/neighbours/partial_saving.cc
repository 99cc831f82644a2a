#include "search/neighbours/partial_saving.h"

#include <algorithm>

namespace tandem::search {

std::vector<plan::Choice> mixed(const graph::Graph& graph, const std::vector<plan::Choice>& faster,
                                const std::vector<plan::Choice>& fits, double share) {
  const auto is_operator = [&](graph::NodeId id) {
    return graph.node(id).op.role() == ops::Role::kCompute;
  };
  std::vector<double> operators;  // by stage
  for (auto id : graph.ids()) {
    const auto stage = fits[id.index()].stage;
    if (operators.size() <= stage) operators.resize(stage + 1U);
    if (is_operator(id)) operators[stage] += 1;
  }
  auto out = faster;
  std::vector<double> before(operators.size());
  std::vector<bool> has_reader(graph.size());
  for (auto id : graph.ids()) {
    if (!is_operator(id)) continue;
    const auto stage = fits[id.index()].stage;
    const bool saves = before[stage]++ < share * operators[stage];
    if (saves) out[id.index()] = fits[id.index()];
    for (auto input : graph.inputs(id)) {
      if (is_operator(input) || has_reader[input.index()]) continue;
      has_reader[input.index()] = true;
      if (saves) out[input.index()] = fits[input.index()];
    }
  }
  return out;
}

// Memory is nearly linear in the share.
void enter_between(Contest& contest, const std::string& name, const Entry& faster,
                   const Entry& fits, std::size_t most) {
  constexpr double kNear = 0.01;
  const auto& graph = fits.candidate.rewritten ? fits.candidate.rewritten->graph : contest.model();
  auto candidate = fits.candidate;
  candidate.name = name;
  candidate.is_in_part = true;
  double low = 0;
  double high = 1;
  auto over = faster.evaluated.over;
  auto under = fits.evaluated.over;
  for (std::size_t i = 0; i < most && high - low > kNear; ++i) {
    const double width = high - low;
    const double guess = low + width * (over / (over - under)) + kNear / 2;
    const double share = std::clamp(guess, low + width / 16, high - width / 16);
    candidate.choices = mixed(graph, faster.candidate.choices, fits.candidate.choices, share);
    const auto costed = contest.enter({candidate})[0];
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
