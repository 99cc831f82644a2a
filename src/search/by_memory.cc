#include "search/by_memory.h"

#include <algorithm>
#include <iterator>

#include "search/least_memory.h"

namespace tandem::search {

namespace {

using strategies::Problem;
using strategies::Setting;
using strategies::Strategy;

constexpr std::size_t kLargeSimulated = 4;
constexpr double kMostPasses = 1e6;  // of all that is simulated
constexpr std::size_t kVaried = 3;   // of these, in other numbers of micro-batches

double parts(const machine::Layout& layout, const machine::Digits& digits) {
  double out = 1;
  for (std::size_t i = 0; i < layout.count(); ++i) {
    if (layout[i].is_dim()) out *= static_cast<double>(digits[i].size);
  }
  return out;
}

std::int64_t samples_of(const Problem& problem) {
  for (const auto& node : problem.nodes) {
    if (const auto batch = node.batch()) return node.signature.map.factors[*batch].size;
  }
  return 1;
}

// A strategy, and what is known before it is simulated.
struct Ranked {
  Strategy strategy;
  Bytes needs;
};

std::vector<Ranked> ranked(const Contest& contest, const Problem& problem,
                           const std::vector<Setting>& settings,
                           const std::function<bool(const std::vector<plan::Choice>&)>& may_win) {
  std::vector<Ranked> out;
  for (auto& strategy : make_strategies(settings, problem)) {
    if (!may_win(strategy.choices)) continue;
    const auto needs = roughly_needed(strategy, problem, contest);
    out.push_back({std::move(strategy), needs});
  }
  std::ranges::stable_sort(out, {}, &Ranked::needs);
  return out;
}

// As many of them, from the first on, as may be simulated.
std::size_t most_simulated(const Contest& contest, const std::vector<Ranked>& all) {
  const auto most = contest.is_large() ? std::min(all.size(), kLargeSimulated) : all.size();
  double passes = 0;
  for (std::size_t i = 0; i < most; ++i) {
    passes += contest.passes(all[i].strategy.schedule);
    if (passes > kMostPasses) return std::max<std::size_t>(i, 1);
  }
  return most;
}

std::vector<Estimated> enter(Contest& contest, const Problem& problem,
                             const std::vector<Setting>& settings,
                             const std::function<bool(const std::vector<plan::Choice>&)>& may_win) {
  auto all = ranked(contest, problem, settings, may_win);
  all.resize(most_simulated(contest, all));
  std::vector<Candidate> candidates;
  std::vector<Estimated> out;
  for (auto& [strategy, needs] : all) {
    out.push_back({strategy.setting, std::nullopt});
    candidates.push_back(candidate_of(std::move(strategy)));
  }
  const auto costed = contest.enter(candidates);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (costed[i]) out[i].point = point_of(*costed[i]);
  }
  return out;
}

}  // namespace

Bytes roughly_needed(const Strategy& strategy, const Problem& problem, const Contest& contest) {
  const auto& schedule = strategy.schedule;
  const auto& options = contest.options();
  const machine::Digits digits(contest.machine(), schedule.micro_batches);
  std::vector<Bytes> by_rank(static_cast<std::size_t>(strategy.setting.pp));
  for (auto id : problem.model.ids()) {
    const auto& node = problem.model.node(id);
    const auto& choice = strategy.choices[id.index()];
    auto& held = by_rank[choice.stage % by_rank.size()];
    if (is_weight(node)) {
      held += stored_bytes(node, options.optimizer, options.precision) *
              (1 / parts(choice.source, digits));
    } else if (node.op.role() == ops::Role::kCompute && !choice.remake) {
      const auto layout =
          output_layout(problem.nodes[id.index()].signature, choice.node, digits.count());
      const auto in_flight = std::min(schedule.micro_batches, schedule.stages - choice.stage);
      held += node.type.whole_bytes() * (static_cast<double>(in_flight) / parts(layout, digits));
    }
  }
  return std::ranges::max(by_rank);
}

std::vector<Estimated> enter_by_memory(
    Contest& contest, const Problem& problem, const std::vector<Setting>& settings,
    const std::function<bool(const std::vector<plan::Choice>&)>& may_win) {
  auto out = enter(contest, problem, settings, may_win);
  if (contest.is_large() || contest.is_over()) return out;
  auto more = varied(promising(out, kVaried), samples_of(problem));
  std::erase_if(more,
                [&](const Setting& s) { return std::ranges::find(settings, s) != settings.end(); });
  std::ranges::move(enter(contest, problem, more, may_win), std::back_inserter(out));
  return out;
}

}  // namespace tandem::search
