#include "predict/fold/stage_times.h"

#include <algorithm>
#include <optional>

namespace tandem::predict {

namespace {

using lower::Phase;

// Returns when the last device stream is free. The host is left out: tasks that it has dispatched
// may still run.
double find_latest(const Streams& streams) {
  return *std::max_element(streams.begin(), streams.end() - 1);
}

// Adds the times of a stage's slots that are bound by the host: the device waits for the host and
// for nothing else.
void add_host_times(const Sections& sections, const RunCounts& counts, Passages& passages,
                    StageTimes& out) {
  StageTimer timer(sections, counts, passages);
  auto streams = timer.make_idle_streams();
  out.wait = sections.micro_batch;
  out.wait_update = sections.step;
  const auto run = [&](Phase phase, bool first, bool last) {
    timer.reset(streams);
    const auto waited = phase == Phase::kForward ? out.wait : 0;
    timer.run(phase, first, last, 0, streams);
    const auto end = streams[0];
    return HostTimes{streams.back() - waited, end - waited};
  };
  out.host_first = run(Phase::kForward, true, false);
  out.host_forward = run(Phase::kForward, false, false);
  out.host_backward = run(Phase::kBackward, false, false);
  out.host_last = run(Phase::kBackward, false, true);
  out.host_reductions = find_latest(streams);
  const auto from = std::max(find_latest(streams), streams.back());
  std::ranges::fill(streams, from);
  timer.update(streams);
  const auto waited = from + out.wait_update;
  out.host_update = {streams.back() - waited, find_latest(streams) - waited};
}

// Returns the time of a pass from when its input is ready. The input comes so late that all tasks
// that need no input are done.
double compute_time_from_input(const Sections& sections, const RunCounts& counts,
                               Passages& passages, Phase phase, bool first, bool last,
                               double input) {
  StageTimer timer(sections, counts, passages, false);
  auto streams = timer.make_idle_streams();
  timer.run(phase, first, last, input, streams);
  return std::max(input, streams[0]) - input;
}

// Returns the backward phase of the last run that the stage has, where its backward pass begins.
const SectionPart& get_first_backward(const Sections& sections, const RunCounts& counts) {
  auto run = counts.size() - 1;
  while (run > 0 && counts[run] == 0) --run;
  return sections.parts[static_cast<std::size_t>(Phase::kBackward)][run];
}

// Adds the work that need not wait: gathers before the first micro-batch arrives, and recomputation
// before a gradient arrives. Stages that end inside layers recompute in a different order and have
// none.
void add_early_work(const Sections& sections, const RunCounts& counts, Passages& passages, bool one,
                    StageTimes& out) {
  constexpr double kRounding = 1e-9;
  if (out.first > kRounding * out.forward) {
    out.first_late = compute_time_from_input(sections, counts, passages, Phase::kForward, true, one,
                                             out.forward + out.first) -
                     out.forward;
  }
  if (get_first_backward(sections, counts).flow->begins_without_input) {
    out.backward_early = std::max(
        0.0, out.backward - compute_time_from_input(sections, counts, passages, Phase::kBackward,
                                                    false, false, out.backward));
  }
}

// Runs a stage's slots one after another.
struct StageRunner {
  StageTimer& timer;
  Streams& streams;
  double& now;
  double more = 0;  // time after the slot, overlapping the next one, until the output is ready

  // Runs one pass and returns its time.
  double run(Phase phase, bool first, bool last) {
    const auto before = now;
    const auto output = timer.run(phase, first, last, now, streams);
    now = std::max(before, streams[0]);
    more = output - now;
    // The next slot that is timed need not follow this one in the pipeline.
    if (more > 0) {
      for (auto& stream : streams) stream = std::min(stream, now);
    }
    return now - before;
  }
};

Beginning time_beginning(const Sections& sections, const RunCounts& counts, Passages& passages,
                         bool one, StageTimer& timer) {
  Beginning begun{.counts = counts, .times = {}, .streams = timer.make_idle_streams()};
  StageRunner actions{timer, begun.streams, begun.now};
  auto& out = begun.times;
  const auto first = actions.run(Phase::kForward, true, one);
  actions.run(Phase::kBackward, false, false);
  out.forward = actions.run(Phase::kForward, false, false);
  out.forward_more = actions.more;
  out.backward = actions.run(Phase::kBackward, false, false);
  out.backward_more = actions.more;
  out.first = first - out.forward;
  add_early_work(sections, counts, passages, one, out);
  actions.run(Phase::kForward, false, false);
  return begun;
}

}  // namespace

double compute_step_time(const Sections& sections, const RunCounts& counts, Passages& passages,
                         std::int64_t micro_batches) {
  StageTimer timer(sections, counts, passages);
  auto streams = timer.make_idle_streams();
  double now = 0;
  const auto run = [&](bool first, bool last) {
    now = timer.run(Phase::kForward, first, last, 0, streams);
    now = timer.run(Phase::kBackward, first, last, now, streams);
  };
  const auto once = [&](std::int64_t m) { run(m == 0, m + 1 == micro_batches); };
  // Once a micro-batch adds to every stream what the one before added, the rest is extrapolated.
  const auto last = micro_batches - 1;
  std::vector<double> step;
  std::vector<double> next(streams.size());
  for (std::int64_t m = 0; m < last; ++m) {
    const auto before = streams;
    once(m);
    for (std::size_t s = 0; s < streams.size(); ++s) next[s] = streams[s] - before[s];
    if (m > 1 && std::ranges::equal(step, next, is_close)) {
      for (std::size_t s = 0; s < streams.size(); ++s) {
        streams[s] += static_cast<double>(last - 1 - m) * next[s];
      }
      break;
    }
    step = next;
  }
  once(last);
  timer.update(streams);
  return std::max(now, find_latest(streams));
}

StageTimes compute_stage_times(const Sections& sections, const RunCounts& counts,
                               Passages& passages, std::int64_t micro_batches, Beginnings& known) {
  const bool one = micro_batches == 1;
  // With interference, tasks that overlapped slow down later tasks.
  const bool is_shared = passages.begins_like_others() && !one && sections.interference == 0;
  StageTimer timer(sections, counts, passages, false);
  const auto found = is_shared ? std::ranges::find(known, counts, &Beginning::counts) : known.end();
  auto begun =
      found != known.end() ? *found : time_beginning(sections, counts, passages, one, timer);
  if (is_shared && found == known.end()) known.push_back(begun);
  auto& [of_counts, out, streams, now] = begun;
  StageRunner actions{timer, streams, now};
  out.last = actions.run(Phase::kBackward, false, true) - out.backward;
  const auto reduced = find_latest(streams);
  timer.update(streams);
  out.after = find_latest(streams) - now;
  out.updates = sections.sum_stage(counts).updates;
  out.after = std::max(out.after, out.updates);
  out.reductions = reduced - now;
  if (sections.takes_host) add_host_times(sections, counts, passages, out);
  return out;
}

}  // namespace tandem::predict
