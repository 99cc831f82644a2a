#include "estimate/stage.h"

#include <algorithm>
#include <cmath>

namespace tandem::estimate {

namespace {

using lower::Part;
using lower::When;

bool runs(When when, bool first, bool last) {
  return when == When::kEach || (when == When::kFirst ? first : last);
}

// What one more layer adds to every stream.
std::vector<double> difference(const Streams& now, const Streams& before) {
  std::vector<double> out(now.size());
  for (std::size_t s = 0; s < now.size(); ++s) out[s] = now[s] - before[s];
  return out;
}

bool are_close(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kRounding = 1e-9;
  for (std::size_t s = 0; s < a.size(); ++s) {
    if (std::abs(a[s] - b[s]) > kRounding * std::max(std::abs(a[s]), std::abs(b[s]))) return false;
  }
  return true;
}

}  // namespace

StageTimer::StageTimer(const Sections& sections, const SectionCounts& counts, bool with_host)
    : sections_(sections), counts_(counts), with_host_(with_host), beside_(sections.interference) {}

// The host waits for the device, and then so long.
void StageTimer::wait(double time, Streams& streams) const {
  if (time > 0 && with_host_) streams.back() = std::max(streams.back(), streams[0]) + time;
}

double StageTimer::run(Part part, bool first, bool last, double input, Streams& streams) {
  if (part == Part::kForward) wait(sections_.micro_batch, streams);
  for (std::size_t i = 0; i < kSections; ++i) {
    const auto section = part == Part::kForward ? i : kSections - 1 - i;
    input = run_alike(section, {static_cast<std::size_t>(part), first, last}, input, streams);
  }
  if (part == Part::kBackward && sections_.has_tasks(kSynchronize)) {
    for (std::size_t s = kSections; s-- > 0;) run_alike(s, {kSynchronize, first, last}, 0, streams);
  }
  return input;
}

void StageTimer::update(Streams& streams) {
  wait(sections_.step, streams);
  constexpr Turn kUpdate{.part = static_cast<std::size_t>(Part::kUpdate)};
  for (std::size_t section = kSections; section-- > 0;) {
    const auto& tasks = sections_.parts[kUpdate.part][section];
    for (auto ready : reduced_[section]) run_section(tasks, kUpdate, ready, streams);
  }
}

double StageTimer::run_alike(std::size_t section, const Turn& turn, double input,
                             Streams& streams) {
  const auto& tasks = sections_.parts[turn.part][section];
  const auto count = counts_[section];
  const bool reduces = turn.last && turn.part != static_cast<std::size_t>(Part::kForward);
  auto& reduced = reduced_[section];
  const auto before_all = turn.part == kSynchronize ? reduced : std::vector<double>();
  if (reduces) reduced.clear();
  std::vector<double> step;
  for (std::int64_t i = 0; i < count; ++i) {
    auto before = streams;
    before.push_back(input);
    input = run_section(tasks, turn, input, streams);
    if (reduces) {
      const auto earlier = turn.part == kSynchronize ? before_all[static_cast<std::size_t>(i)] : 0;
      reduced.push_back(std::max(gradients_, earlier));
    }
    if (count <= 3 || sections_.interference > 0) continue;
    auto now = streams;
    now.push_back(input);
    auto next = difference(now, before);
    if (i + 1 < count && !step.empty() && are_close(step, next)) {
      go_on(section, turn, count - i - 1, next, streams);
      return input + static_cast<double>(count - i - 1) * next.back();
    }
    step = std::move(next);
  }
  return input;
}

// As many layers more, each of which adds so much to every stream.
void StageTimer::go_on(std::size_t section, const Turn& turn, std::int64_t layers,
                       const std::vector<double>& each, Streams& streams) {
  for (std::size_t s = 0; s < streams.size(); ++s) {
    streams[s] += static_cast<double>(layers) * each[s];
  }
  if (!turn.last || turn.part == static_cast<std::size_t>(Part::kForward)) return;
  auto& reduced = reduced_[section];
  const auto pace = reduced.back() - reduced[reduced.size() - 2];
  for (std::int64_t l = 0; l < layers; ++l) reduced.push_back(reduced.back() + pace);
}

double StageTimer::run_section(const SectionPart& part, const Turn& turn, double input,
                               Streams& streams) {
  ready_.assign(part.from_neighbour.size(), 0);
  for (std::size_t s = 0; s < ready_.size(); ++s) {
    if (part.from_neighbour[s]) ready_[s] = input;
  }
  auto& host = streams.back();
  for (const auto& task : part.tasks) {
    if (!runs(task.when, turn.first, turn.last)) continue;
    const auto* use = part.uses.data() + task.first_use;
    double start = 0;
    for (std::uint16_t r = 0; r < task.reads; ++r) start = std::max(start, ready_[*use++]);
    if (with_host_) host += task.dispatch;
    double end = start;
    if (task.duration > 0) {
      start = std::max({start, streams[task.stream], host});
      if (turn.part == kSynchronize) start = std::max(start, streams[0]);
      end = start + task.duration;
      if (sections_.interference > 0) {
        const auto activity =
            task.stream == 0 ? sim::Activity::kCompute : sim::Activity::kCommunication;
        end = beside_.end(activity, Seconds{start}, Seconds{task.duration}).value;
      }
      occupy(task.stream, start, end, streams);
    }
    for (std::uint16_t w = 0; w < task.writes; ++w) {
      auto& ready = ready_[*use++];
      ready = std::max(ready, end);
    }
  }
  gradients_ = 0;
  for (auto s : part.gradients) gradients_ = std::max(gradients_, ready_[s]);
  double output = part.to_neighbour.empty() ? input : 0;
  for (auto s : part.to_neighbour) output = std::max(output, ready_[s]);
  return output;
}

// What it takes from tasks of the other kind shows once their stream is free again, as in the event
// simulation.
void StageTimer::occupy(std::uint16_t stream, double start, double end, Streams& streams) {
  streams[stream] = end;
  if (sections_.interference == 0) return;
  const auto activity = stream == 0 ? sim::Activity::kCompute : sim::Activity::kCommunication;
  const auto delay = beside_.add(activity, Seconds{start}, Seconds{end}).value;
  for (std::size_t s = 0; s < sections_.streams; ++s) {
    if ((s == 0) == (activity == sim::Activity::kCommunication)) streams[s] += delay;
  }
}

double dispatch_of(const Sections& sections, const SectionCounts& counts, Part part) {
  double out = 0;
  for (std::size_t s = 0; s < kSections; ++s) {
    for (const auto& task : sections.part(part, static_cast<Section>(s)).tasks) {
      if (task.when == When::kEach) out += static_cast<double>(counts[s]) * task.dispatch;
    }
  }
  return out;
}

Serialized serialized(const Sections& sections, const SectionCounts& counts) {
  Serialized out;
  for (const auto& part : sections.parts) {
    for (std::size_t s = 0; s < kSections; ++s) {
      for (const auto& task : part[s].tasks) {
        auto& sum = task.when == When::kEach ? out.each : out.once;
        sum[task.kind] += static_cast<double>(counts[s]) * task.duration;
      }
    }
  }
  return out;
}

}  // namespace tandem::estimate
