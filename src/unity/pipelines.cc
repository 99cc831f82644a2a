#include "unity/pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/divisor.h"
#include "strategies/pipeline.h"
#include "strategies/stages.h"

namespace tandem::unity {

namespace {

// Micro-batches per stage: enough to fill a pipeline most of the time.
constexpr std::int64_t kPerStage = 4;

// Numbers of micro-batches per stage. Fewer are larger and each more efficient; more fill and drain
// the pipeline sooner.
constexpr std::int64_t kTried[] = {1, 2, kPerStage, 8, 16};

strategies::Setting make_setting(std::int64_t stages, std::int64_t micro_batches, bool delayed) {
  strategies::Setting out;
  out.pp = stages;
  out.micro = micro_batches;
  out.stale = delayed;
  return out;
}

}  // namespace

std::vector<UnityPipeline> list_pipelines(const search::CandidatePool& pool) {
  const auto& options = pool.options();
  if (!options.network) return {};
  const auto& digits = pool.digits();
  const strategies::Problem problem(pool.model(), digits);
  const auto most = static_cast<std::int64_t>(strategies::find_cuts(problem).size());
  std::vector<UnityPipeline> out;
  for (auto stages : list_degrees(digits, digits.space())) {
    if (stages > most || !strategies::find_rank_digits(digits, stages)) continue;
    const auto micro = find_nearest_divisor(options.network->batch, kPerStage * stages);
    if (micro >= stages) out.push_back({stages, micro});
  }
  return out;
}

std::vector<search::Candidate> make_candidates(const UnityPipeline& way, const UnityPlan& made,
                                               const search::CandidatePool& pool) {
  const auto& how = pool.options();
  const bool delayed = how.semantics == plan::Semantics::kDelayed1;
  const auto& graph = made.rewritten ? made.rewritten->graph : pool.model();
  const strategies::Problem problem(graph, pool.digits());
  std::vector<std::int64_t> numbers = {way.micro_batches};
  for (auto each : kTried) {
    const auto n = each * way.stages;
    if (how.network->batch % n == 0 && n != way.micro_batches) numbers.push_back(n);
  }
  std::vector<search::Candidate> out;
  for (auto micro : numbers) {
    auto made_step = make_step(make_setting(way.stages, micro, delayed), problem, made.choices,
                               made.node_seconds);
    auto* step = std::get_if<strategies::StrategyStep>(&made_step);
    if (step == nullptr) continue;
    step->schedule.precision = how.precision;
    out.push_back({.name = fmt::format("search:unity:pp={},micro={}{}", way.stages, micro,
                                       delayed ? ",stale" : ""),
                   .choices = std::move(step->choices),
                   .schedule = step->schedule,
                   .may_win = true,
                   .rewritten = made.rewritten});
  }
  return out;
}

}  // namespace tandem::unity
