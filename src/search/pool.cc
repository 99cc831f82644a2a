#include "search/pool.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/parallel.h"
#include "search/least_memory.h"
#include "search/limits.h"

namespace tandem::search {

namespace {

constexpr Seconds kUnlimited{std::numeric_limits<double>::infinity()};

// Returns equal hashes for candidates with equal choices and schedules of the same graph.
Hash hash_candidate(const Candidate& candidate) {
  const auto& schedule = candidate.schedule;
  const auto flags = (schedule.reduce_each ? 1U : 0U) | (schedule.whole_gradients ? 2U : 0U) |
                     (schedule.ring ? 4U : 0U);
  Hash out = candidate.rewritten ? candidate.rewritten->graph.identity_hash() : 0;
  const auto add = [&](auto value) { out = hash_combine(out, static_cast<Hash>(value)); };
  add(schedule.micro_batches);
  add(schedule.stages);
  add(schedule.digits);
  add(schedule.order);
  add(flags);
  add(std::bit_cast<Hash>(schedule.bucket.value));
  for (const auto& choice : candidate.choices) {
    const auto again = (choice.recompute ? 1U : 0U) | (choice.regather ? 2U : 0U);
    add(choice.source.hash());
    add(choice.stage * 4U + again);
    for (auto use : choice.node.uses) add(std::bit_cast<std::uint8_t>(use));
  }
  return out;
}

}  // namespace

Candidate make_candidate(strategies::Strategy strategy, bool may_win) {
  return {.name = std::move(strategy.name),
          .choices = std::move(strategy.choices),
          .schedule = strategy.schedule,
          .may_win = may_win,
          .rewritten = nullptr,
          .setting = std::move(strategy.setting)};
}

CandidatePool::CandidatePool(const graph::Graph& model, const machine::Machine& machine,
                             const Options& options)
    : model_(model),
      machine_(machine),
      digits_(machine),
      options_(options),
      costs_(machine, digits_, options.optimizer, options.precision),
      may_fit_(!is_too_large(model, machine, options)) {
  result_.limits = compute_memory_limits(machine, options.memory, options.margin);
}

// Candidates of one batch get the same limit, as if the others were not there. They are then
// rejected in order by what is known at that point. The outcome thus does not depend on the number
// of threads.
std::vector<std::optional<Evaluated>> CandidatePool::enter(const std::vector<Candidate>& candidates,
                                                           std::optional<Seconds> than) {
  std::vector<std::optional<Evaluated>> out(candidates.size());
  const std::size_t together = std::max(1U, options_.threads);
  for (std::size_t from = 0; from < candidates.size(); from += together) {
    if (result_.candidates > 0 && is_over()) break;
    auto n = std::min(together, candidates.size() - from);
    if (options_.until.candidates) {
      n = std::min(n, std::max<std::size_t>(*options_.until.candidates, 1) - result_.candidates);
    }
    const auto limit = [&](std::size_t i) {
      return than ? std::max(*than, find_time_to_beat(candidates[i])) : kUnlimited;
    };
    parallel_for(n, options_.threads, [&](std::size_t i) {
      const auto& candidate = candidates[from + i];
      const auto most = limit(from + i);
      if (!is_known_to_take(candidate, most)) out[from + i] = cost(candidate, most);
    });
    for (std::size_t i = from; i < from + n; ++i) {
      ++result_.candidates;
      auto& known = known_[hash_candidate(candidates[i])];
      known = std::max(known, out[i] ? out[i]->simulation.iteration : limit(i));
      if (!out[i] || out[i]->simulation.iteration >= limit(i)) {
        out[i].reset();
        report_progress();
        continue;
      }
      if (than && out[i]->feasible) than = std::min(*than, out[i]->simulation.iteration);
      // Only the best keeps its timeline: one of many micro-batches takes a gigabyte.
      auto timeline = std::exchange(out[i]->simulation.timeline, {});
      record_outcome(candidates[i], *out[i]);
      if (!candidates[i].may_win) continue;
      if (consider(*out[i])) {
        best_candidate_ = candidates[i];
        result_.best->simulation.timeline = std::move(timeline);
      }
      if (out[i]->feasible) record_fitting(candidates[i], *out[i]);
      consider_as_leader(candidates[i], *out[i]);
    }
  }
  return out;
}

// Returns the step time above which a candidate can no longer be the best, the runner-up, a leader,
// or a simpler plan that choose() allows.
Seconds CandidatePool::find_time_to_beat(const Candidate& candidate) const {
  if (!result_.best) return kUnlimited;
  auto next = kUnlimited;
  for (const auto& [name, evaluated] : by_name_) {
    const auto time = evaluated.time();
    if (name != candidate.name && time > longest_allowed_time()) next = std::min(next, time);
  }
  const auto at = leaders_.find(candidate.rewritten.get());
  if (at == leaders_.end()) return kUnlimited;
  const auto& leaders = at->second;
  const auto other =
      candidate.name != kSideBySide
          ? leaders.end()
          : std::ranges::find(leaders, candidate.name,
                              [](const EvaluatedCandidate& e) { return e.candidate.name; });
  if (other != leaders.end()) return std::max(next, other->evaluated.time());
  return leaders.size() < limits::kLeaders ? kUnlimited
                                           : std::max(next, leaders.back().evaluated.time());
}

void CandidatePool::record_outcome(const Candidate& candidate, const Evaluated& costed) {
  least_time_ = std::min(least_time_, costed.simulation.iteration);
  const auto& rewritten = candidate.rewritten;
  if (costed.setting) simulated_.push_back(summarize(costed));
  if (rewritten && std::ranges::find(rewritten_, rewritten) == rewritten_.end()) {
    rewritten_.push_back(rewritten);
  }
}

void CandidatePool::record_fitting(const Candidate& candidate, const Evaluated& costed) {
  const auto time = costed.time();
  auto& fastest = result_.fastest_strategy;
  if (costed.setting && (fastest == Seconds{} || time < fastest)) fastest = time;
  const auto [named, is_new_name] = by_name_.try_emplace(costed.name);
  if (is_new_name || time < named->second.time()) named->second = summarize(costed);
  if (time > longest_allowed_time()) return;
  const auto [at, is_new] = by_complexity_.try_emplace(compute_complexity(candidate));
  if (is_new || time < at->second.evaluated.time()) at->second = {candidate, summarize(costed)};
}

Seconds CandidatePool::longest_allowed_time() const {
  return (1 + options_.tolerance) * result_.best.value().simulation.iteration;
}

Complexity CandidatePool::find_least_complexity() const {
  for (const auto& [complexity, entry] : by_complexity_) {
    if (entry.evaluated.time() <= longest_allowed_time()) return complexity;
  }
  return compute_complexity(best_candidate_.value());
}

// Lists the candidates that are faster than all simpler ones. Of several with the same name only
// the fastest is listed, and none that is a baseline row.
void CandidatePool::find_faster(Seconds than) {
  auto& out = result_.faster;
  for (const auto& [complexity, entry] : by_complexity_) {  // the simplest first
    if (entry.evaluated.time() >= than) continue;
    out.push_back(entry.evaluated);
    than = entry.evaluated.time();
  }
  std::ranges::stable_sort(out, is_better);
  std::set<std::string> names;
  for (const auto& row : result_.baselines) names.insert(row.name);
  std::erase_if(out, [&](const Evaluated& row) { return !names.insert(row.name).second; });
}

void CandidatePool::choose_best() {
  if (!result_.best || !best_candidate_) return;
  const auto limit = longest_allowed_time();
  bool is_whole = !result_.best->simulation.is_extrapolated;
  for (const auto& [complexity, entry] : by_complexity_) {
    const auto& [candidate, evaluated] = entry;
    if (options_.tolerance == 0 || complexity >= compute_complexity(*best_candidate_)) break;
    if (evaluated.time() > limit) continue;
    best_candidate_ = candidate;
    is_whole = false;
    break;
  }
  if (!is_whole) result_.best = cost(*best_candidate_, kUnlimited, predict::Extent::kAll);
  const auto time = result_.best->simulation.iteration;
  find_faster(time);
  for (const auto& [name, evaluated] : by_name_) {
    if (name == result_.best->name || evaluated.time() < time) continue;
    auto& next = result_.runner_up;
    if (!next || evaluated.time() < next->time()) next = evaluated;
  }
}

void CandidatePool::enter_estimate(const Evaluated& estimated) {
  CHECK(!estimated.feasible || options_.until.first_fit);
  consider(estimated);
}

bool CandidatePool::is_over() {
  if (over_) return true;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin_;
  const auto& until = options_.until;
  std::optional<StopReason> why;
  if (until.interrupted && until.interrupted()) {
    why = StopReason::kInterrupted;
  } else if (until.seconds && taken.count() >= *until.seconds) {
    why = StopReason::kBudget;
  } else if (until.candidates && result_.candidates >= *until.candidates) {
    why = StopReason::kCandidates;
  } else if (until.first_fit && result_.best) {
    why = StopReason::kFits;
  }
  if (!why) return false;
  result_.stop_reason = *why;
  return over_ = true;
}

std::optional<Evaluated> CandidatePool::cost(const Candidate& candidate, Seconds limit,
                                             predict::Extent extent) {
  auto schedule = candidate.schedule;
  schedule.precision = options_.precision;
  const auto& graph = candidate.rewritten ? candidate.rewritten->graph : model_;
  auto out = cost_within(limit, graph, machine_, candidate.name, candidate.choices, schedule,
                         options_.optimizer, result_.limits, lower::Mode::kTraining,
                         predict::Classes::kDifferent,
                         options_.threads <= 1 ? &operations_ : nullptr, extent);
  if (!out) return out;
  out->rewritten = candidate.rewritten;
  if (!candidate.rewritten && !candidate.is_in_part) out->setting = candidate.setting;
  return out;
}

// Returns whether an earlier evaluation of the same candidate shows that it takes `limit` or
// longer.
bool CandidatePool::is_known_to_take(const Candidate& candidate, Seconds limit) const {
  const auto at = known_.find(hash_candidate(candidate));
  return at != known_.end() && at->second >= limit;
}

bool CandidatePool::consider(const Evaluated& costed) {
  if (result_.smallest.name.empty() || costed.over < result_.smallest.over) {
    result_.smallest = costed;
  }
  auto& best = result_.best;
  const bool wins = costed.feasible && (!best || is_better(costed, *best));
  if (wins) {
    best = costed;
    result_.fastest = costed.simulation.iteration;
  }
  report_progress();
  return wins;
}

void CandidatePool::consider_as_leader(const Candidate& candidate, const Evaluated& costed) {
  if (!costed.feasible) return;
  auto& leaders = leaders_[candidate.rewritten.get()];
  const auto iteration = costed.simulation.iteration;
  const auto is_same = [&](const EvaluatedCandidate& e) {
    return e.candidate.choices == candidate.choices;
  };
  if (std::ranges::any_of(leaders, is_same)) return;
  // Most candidates of this name differ only in the place of a table. The fastest represents them.
  if (candidate.name == kSideBySide) {
    const auto other = std::ranges::find(
        leaders, candidate.name, [](const EvaluatedCandidate& e) { return e.candidate.name; });
    if (other != leaders.end()) {
      if (other->evaluated.time() <= iteration) return;
      leaders.erase(other);
    }
  }
  const auto at = std::ranges::upper_bound(
      leaders, iteration, {}, [](const EvaluatedCandidate& e) { return e.evaluated.time(); });
  leaders.insert(at, {candidate, summarize(costed)});
  if (leaders.size() > limits::kLeaders) leaders.pop_back();
}

std::vector<Candidate> CandidatePool::list_leaders(
    const std::shared_ptr<const Rewritten>& rewritten) const {
  std::vector<Candidate> out;
  const auto at = leaders_.find(rewritten.get());
  if (at == leaders_.end()) return out;
  for (const auto& leader : at->second) {
    out.push_back(leader.candidate);
    out.back().setting.reset();
  }
  return out;
}

std::optional<Seconds> CandidatePool::find_fastest_time(
    const std::shared_ptr<const Rewritten>& rewritten) const {
  const auto at = leaders_.find(rewritten.get());
  if (at == leaders_.end()) return std::nullopt;
  return at->second[0].evaluated.time();
}

void CandidatePool::report_progress(std::size_t rewrites) const {
  if (!options_.progress) return;
  std::optional<Seconds> best;
  if (result_.best) best = result_.best->simulation.iteration;
  options_.progress({result_.candidates, result_.rewrites + rewrites, best});
}

bool CandidatePool::is_within_dims(const strategies::Problem& problem,
                                   const std::vector<plan::Choice>& choices) const {
  for (auto id : problem.model.ids()) {
    const auto& node = problem.nodes[id.index()];
    for (auto use : choices[id.index()].node.uses) {
      if (use.is_factor() && !is_allowed(node, use.factor(), options_.dims)) return false;
    }
  }
  return true;
}

}  // namespace tandem::search
