#include "search/neighbours/partial_saving.h"

#include <algorithm>

namespace tandem::search {

std::vector<plan::Choice> mixed(const graph::Graph& graph, const Between& ends, double share) {
  const auto is_operator = [&](graph::NodeId id) {
    return graph.node(id).op.role() == ops::Role::kCompute;
  };
  std::vector<double> operators;  // by stage
  for (auto id : graph.ids()) {
    const auto stage = ends.fits.choices[id.index()].stage;
    if (operators.size() <= stage) operators.resize(stage + 1U);
    if (is_operator(id)) operators[stage] += 1;
  }
  auto out = ends.faster.choices;
  std::vector<double> before(operators.size());
  std::vector<bool> has_reader(graph.size());
  for (auto id : graph.ids()) {
    if (!is_operator(id)) continue;
    const auto stage = ends.fits.choices[id.index()].stage;
    const bool saves = before[stage]++ < share * operators[stage];
    if (saves) out[id.index()] = ends.fits.choices[id.index()];
    for (auto input : graph.inputs(id)) {
      if (is_operator(input) || has_reader[input.index()]) continue;
      has_reader[input.index()] = true;
      if (saves) out[input.index()] = ends.fits.choices[input.index()];
    }
  }
  return out;
}

// Memory is nearly linear in the share.
void enter_between(Contest& contest, const graph::Graph& graph, const Between& ends,
                   std::size_t most) {
  constexpr double kNear = 0.01;
  double low = 0;
  double high = 1;
  auto over = ends.faster.over;
  auto under = ends.fits.over;
  for (std::size_t i = 0; i < most && high - low > kNear; ++i) {
    const double width = high - low;
    const double guess = low + width * (over / (over - under)) + kNear / 2;
    const double share = std::clamp(guess, low + width / 16, high - width / 16);
    const auto costed = contest.enter({{.name = ends.name,
                                        .choices = mixed(graph, ends, share),
                                        .schedule = ends.schedule,
                                        .may_win = true,
                                        .rewritten = ends.rewritten,
                                        .setting = ends.setting,
                                        .is_in_part = true}})[0];
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
