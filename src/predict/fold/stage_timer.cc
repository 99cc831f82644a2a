#include "predict/fold/stage_timer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tandem::predict {

namespace {

using lower::Phase;
using lower::When;

bool runs(When when, bool first, bool last) {
  return when == When::kEach || (when == When::kFirst ? first : last);
}

// Returns the streams for which a property holds in a variant of a section (Passages), given the
// streams for which it holds by `When` of the tasks.
std::uint32_t find_streams_in_variant(const std::array<std::uint32_t, 3>& by_when,
                                      std::size_t variant) {
  std::uint32_t out = 0;
  for (auto when : {When::kEach, When::kFirst, When::kLast}) {
    const bool runs_then = runs(when, (variant & 2U) != 0, (variant & 1U) != 0);
    if (runs_then) out |= by_when[static_cast<std::size_t>(when)];
  }
  return out;
}

}  // namespace

bool is_close(double a, double b) {
  constexpr double kRounding = 1e-9;
  constexpr double kNothing = 1e-12;  // seconds
  return std::abs(a - b) <= kNothing + kRounding * std::max(std::abs(a), std::abs(b));
}

Passages::Passages(const Sections& sections) {
  CHECK(sections.streams < 32, sections.streams);
  for (std::size_t p = 0; p < kParts; ++p) {
    seen_[p].resize(sections.runs());
    for (std::size_t s = 0; s < sections.runs(); ++s) set_used_streams(sections, p, s);
  }
}

Passages::Passages(const Sections& sections, const Sections& others, Passages& of_others) {
  begin_as_others_ = true;
  for (std::size_t p = 0; p < kParts; ++p) {
    seen_[p].resize(sections.runs());
    for (std::size_t s = 0; s < sections.runs(); ++s) {
      std::array<std::uint32_t, 3> differs{};
      const auto& tasks = sections.parts[p][s].tasks;
      for (std::size_t t = 0; t < tasks.size(); ++t) {
        const auto& other = others.parts[p][s].tasks[t];
        if (tasks[t].duration == other.duration && tasks[t].stream == other.stream) continue;
        differs[static_cast<std::size_t>(tasks[t].when)] = 1;
      }
      if (differs != std::array<std::uint32_t, 3>{}) set_used_streams(sections, p, s);
      for (std::size_t v = 0; v < kVariants; ++v) {
        const bool differs_in = find_streams_in_variant(differs, v) != 0;
        if (!differs_in) seen_[p][s][v].elsewhere = &of_others.seen_[p][s][v];
        const bool is_last = (v & 1U) != 0;
        if (differs_in && !is_last) begin_as_others_ = false;
      }
    }
  }
}

void Passages::set_used_streams(const Sections& sections, std::size_t part, std::size_t section) {
  std::array<std::uint32_t, 3> streams{};
  std::array<std::uint32_t, 3> early{};
  for (const auto& task : sections.parts[part][section].tasks) {
    if (task.duration <= 0) continue;
    streams[static_cast<std::size_t>(task.when)] |= 1U << task.stream;
    if (!task.waits) early[static_cast<std::size_t>(task.when)] |= 1U << task.stream;
  }
  // A reduction after the backward pass begins no earlier than the compute stream is free.
  const std::uint32_t computes = part == kSynchronize ? 1 : 0;
  for (std::size_t v = 0; v < kVariants; ++v) {
    auto& seen = seen_[part][section][v];
    seen.streams = find_streams_in_variant(streams, v) | computes;
    seen.early = find_streams_in_variant(early, v) | computes;
  }
}

const Passages::CachedPassage* Passages::find(std::size_t section, const MicroBatchPass& action,
                                              double input, const Streams& streams) const {
  const auto& known = get_cache(section, action);
  for (const auto& passage : known.passages) {
    bool same = true;
    for (std::size_t s = 0; same && s < streams.size(); ++s) {
      if ((known.streams >> s & 1U) == 0) continue;
      same = is_close(passage.before[s], lag(known, s, streams[s] - input));
    }
    if (same) return &passage;
  }
  return nullptr;
}

void Passages::add(std::size_t section, const MicroBatchPass& action, double input,
                   const Streams& before, const Streams& after, double output, double gradients) {
  constexpr std::size_t kMost = 8;  // searching more of them takes longer than running the section
  auto& own = seen_[action.part][section][variant_index(action)];
  auto& known = own.elsewhere != nullptr ? *own.elsewhere : own;
  if (known.passages.size() == kMost) return;
  const auto from_input = [&](const Streams& streams) {
    auto out = streams;
    for (auto& time : out) time -= input;
    return out;
  };
  auto lags = from_input(before);
  for (std::size_t s = 0; s < lags.size(); ++s) lags[s] = lag(known, s, lags[s]);
  known.passages.push_back({lags, from_input(after), output - input, gradients - input});
}

void Passages::apply(std::size_t section, const MicroBatchPass& action,
                     const CachedPassage& passage, double input, Streams& streams) const {
  const auto used = get_cache(section, action).streams;
  for (std::size_t s = 0; s < streams.size(); ++s) {
    if ((used >> s & 1U) != 0) streams[s] = input + passage.after[s];
  }
}

double Passages::find_first_free(std::size_t section, const MicroBatchPass& action,
                                 const Streams& streams) const {
  const auto used = get_cache(section, action).streams;
  if (used == 0) return 0;
  auto out = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < streams.size(); ++s) {
    if ((used >> s & 1U) != 0) out = std::min(out, streams[s]);
  }
  return out;
}

StageTimer::StageTimer(const Sections& sections, const RunCounts& counts, Passages& passages,
                       bool with_host)
    : sections_(sections),
      counts_(counts),
      passages_(passages),
      with_host_(with_host && sections.takes_host),
      interference_(sections.interference),
      reduced_(sections.runs()) {}

// Makes the host wait for the device, and then for `time`.
void StageTimer::wait(double time, Streams& streams) const {
  if (time > 0 && with_host_) streams.back() = std::max(streams.back(), streams[0]) + time;
}

double StageTimer::run(Phase phase, bool first, bool last, double input, Streams& streams) {
  if (phase == Phase::kForward) wait(sections_.micro_batch, streams);
  for (std::size_t i = 0; i < sections_.runs(); ++i) {
    const auto section = phase == Phase::kForward ? i : sections_.runs() - 1 - i;
    input = run_layers(section, {static_cast<std::size_t>(phase), first, last}, input, streams);
  }
  if (phase == Phase::kBackward && sections_.has_tasks(kSynchronize)) {
    for (std::size_t s = sections_.runs(); s-- > 0;)
      run_layers(s, {kSynchronize, first, last}, 0, streams);
  }
  return input;
}

void StageTimer::update(Streams& streams) {
  wait(sections_.step, streams);
  for (std::size_t section = sections_.runs(); section-- > 0;) update_layers(section, streams);
}

void StageTimer::update_layers(std::size_t section, Streams& streams) {
  constexpr MicroBatchPass kUpdate{.part = static_cast<std::size_t>(Phase::kUpdate)};
  const auto& reduced = reduced_[section];
  for (std::size_t l = 0; l < reduced.size(); ++l) {
    const auto before = passages_.find_first_free(section, kUpdate, streams);
    // A gradient that is ready before any stream is free counts as ready at that time.
    run_cached(section, kUpdate, std::max(reduced[l], before), streams);
    // If all gradients are ready before the streams are free, and the updates use one stream, each
    // further update takes the same time.
    const auto left = reduced.size() - l - 1;
    const bool all_there =
        left > 1 && before > 0 && reduced.back() <= before && std::ranges::is_sorted(reduced);
    if (!all_there || with_host_ || sections_.interference > 0) continue;
    const auto used = passages_.used_streams(section, kUpdate);
    if (std::popcount(used) != 1) continue;
    const auto stream = static_cast<std::size_t>(std::countr_zero(used));
    streams[stream] += static_cast<double>(left) * (streams[stream] - before);
    return;
  }
}

double StageTimer::run_layers(std::size_t section, const MicroBatchPass& action, double input,
                              Streams& streams) {
  const auto count = counts_[section];
  if (count == 0) return input;
  const bool reduces = action.last && action.part != static_cast<std::size_t>(Phase::kForward);
  auto& reduced = reduced_[section];
  const auto before_all = action.part == kSynchronize ? reduced : std::vector<double>();
  if (reduces) reduced.clear();
  // Time that the previous layer has added to every stream and to its input.
  Streams step;
  double step_of_input = 0;
  std::vector<double> step_of_gathered;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto before = streams;
    const auto before_input = input;
    const auto before_gathered = gathered_;
    input = run_cached(section, action, input, streams);
    if (reduces) {
      const auto earlier =
          action.part == kSynchronize ? before_all[static_cast<std::size_t>(i)] : 0;
      reduced.push_back(std::max(gradients_, earlier));
    }
    if (count <= 3 || sections_.interference > 0) continue;
    auto added = streams;
    for (std::size_t s = 0; s < streams.size(); ++s) added[s] -= before[s];
    const auto of_input = input - before_input;
    auto of_gathered = gathered_;
    for (std::size_t g = 0; g < std::min(of_gathered.size(), before_gathered.size()); ++g) {
      of_gathered[g] -= before_gathered[g];
    }
    if (i > 0 && i + 1 < count && is_close(step_of_input, of_input) &&
        std::ranges::equal(step, added, is_close) &&
        std::ranges::equal(step_of_gathered, of_gathered, is_close)) {
      extrapolate(section, action, count - i - 1, added, streams);
      for (std::size_t g = 0; g < gathered_.size(); ++g) {
        gathered_[g] += static_cast<double>(count - i - 1) * of_gathered[g];
      }
      return input + static_cast<double>(count - i - 1) * of_input;
    }
    step = added;
    step_of_input = of_input;
    step_of_gathered = std::move(of_gathered);
  }
  return input;
}

// Extrapolates `layers` more layers, each of which adds `added` to the streams.
void StageTimer::extrapolate(std::size_t section, const MicroBatchPass& action, std::int64_t layers,
                             const Streams& added, Streams& streams) {
  for (std::size_t s = 0; s < streams.size(); ++s) {
    streams[s] += static_cast<double>(layers) * added[s];
  }
  if (!action.last || action.part == static_cast<std::size_t>(Phase::kForward)) return;
  auto& reduced = reduced_[section];
  const auto pace = reduced.back() - reduced[reduced.size() - 2];
  for (std::int64_t l = 0; l < layers; ++l) reduced.push_back(reduced.back() + pace);
}

double StageTimer::run_cached(std::size_t section, const MicroBatchPass& action, double input,
                              Streams& streams) {
  const auto& part = sections_.parts[action.part][section];
  const bool gathers_ahead =
      !part.flow->gathered_before.empty() || !part.flow->gathered_for_next.empty();
  if (with_host_ || sections_.interference > 0 || gathers_ahead)
    return run_section(part, action, input, streams);
  if (const auto* known = passages_.find(section, action, input, streams)) {
    passages_.apply(section, action, *known, input, streams);
    gradients_ = part.flow->gradients.empty() ? 0 : input + known->gradients;
    return input + known->output;
  }
  const auto before = streams;
  const auto output = run_section(part, action, input, streams);
  passages_.add(section, action, input, before, streams, output, gradients_);
  return output;
}

double StageTimer::run_section(const SectionPart& part, const MicroBatchPass& action, double input,
                               Streams& streams) {
  const auto& flow = *part.flow;
  ready_.assign(flow.slots, 0);
  for (auto s : flow.from_neighbour) ready_[s] = input;
  const bool all_known = gathered_.size() == flow.gathered_before.size();
  for (std::size_t i = 0; i < flow.gathered_before.size(); ++i) {
    ready_[flow.gathered_before[i]] = all_known ? gathered_[i] : input;
  }
  auto& host = streams.back();
  for (const auto& task : part.tasks) {
    if (!runs(task.when, action.first, action.last)) continue;
    const auto* use = flow.uses.data() + task.first_use;
    double start = 0;
    for (std::uint16_t r = 0; r < task.reads; ++r) start = std::max(start, ready_[*use++]);
    if (with_host_) host += task.dispatch;
    double end = start;
    if (task.duration > 0) {
      start = std::max({start, streams[task.stream], host});
      if (action.part == kSynchronize) start = std::max(start, streams[0]);
      end = start + task.duration;
      if (sections_.interference > 0) {
        const auto activity = task.stream == 0 ? Activity::kCompute : Activity::kCommunication;
        end = interference_.compute_end(activity, Seconds{start}, Seconds{task.duration}).value;
      }
      occupy(task.stream, start, end, streams);
    }
    for (std::uint16_t w = 0; w < task.writes; ++w) {
      auto& ready = ready_[*use++];
      ready = std::max(ready, end);
    }
  }
  gathered_.clear();
  for (auto s : flow.gathered_for_next) gathered_.push_back(ready_[s]);
  gradients_ = 0;
  for (auto s : flow.gradients) gradients_ = std::max(gradients_, ready_[s]);
  double output = flow.to_neighbour.empty() ? input : 0;
  for (auto s : flow.to_neighbour) output = std::max(output, ready_[s]);
  return output;
}

// Marks the stream as busy. Interference with tasks of the other kind delays their streams once
// they are free again, as in the event simulation.
void StageTimer::occupy(std::uint16_t stream, double start, double end, Streams& streams) {
  streams[stream] = end;
  if (sections_.interference == 0) return;
  const auto activity = stream == 0 ? Activity::kCompute : Activity::kCommunication;
  const auto delay = interference_.add(activity, Seconds{start}, Seconds{end}).value;
  for (std::size_t s = 0; s < sections_.streams; ++s) {
    if ((s == 0) == (activity == Activity::kCommunication)) streams[s] += delay;
  }
}

}  // namespace tandem::predict
