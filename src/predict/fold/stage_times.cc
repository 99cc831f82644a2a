#include "predict/fold/stage_times.h"

#include <algorithm>
#include <optional>

namespace tandem::predict {

namespace {

using lower::Part;

// The host left out: what it has dispatched need not have run.
double latest(const Streams& streams) {
  return *std::max_element(streams.begin(), streams.end() - 1);
}

// What of a stage's turns hosts decide: a device that has nothing to do waits for its host, and has
// all it needs.
void add_host(const Sections& sections, const RunCounts& counts, Passages& passages,
              StageTimes& out) {
  StageTimer timer(sections, counts, passages);
  auto streams = timer.idle();
  out.wait = sections.micro_batch;
  out.wait_update = sections.step;
  const auto run = [&](Part part, bool first, bool last) {
    timer.begin_anew(streams);
    const auto waited = part == Part::kForward ? out.wait : 0;
    timer.run(part, first, last, 0, streams);
    const auto end = streams[0];
    return HostTimes{streams.back() - waited, end - waited};
  };
  out.host_first = run(Part::kForward, true, false);
  out.host_forward = run(Part::kForward, false, false);
  out.host_backward = run(Part::kBackward, false, false);
  out.host_last = run(Part::kBackward, false, true);
  out.host_reductions = latest(streams);
  const auto from = std::max(latest(streams), streams.back());
  std::ranges::fill(streams, from);
  timer.update(streams);
  const auto waited = from + out.wait_update;
  out.host_update = {streams.back() - waited, latest(streams) - waited};
}

// From when the input is there, where that is so late that what needs none has long run.
double time_from_input(const Sections& sections, const RunCounts& counts, Passages& passages,
                       Part part, bool first, bool last, double input) {
  StageTimer timer(sections, counts, passages, false);
  auto streams = timer.idle();
  timer.run(part, first, last, input, streams);
  return std::max(input, streams[0]) - input;
}

// The first of the runs that the stage has, backwards.
const SectionPart& first_backward(const Sections& sections, const RunCounts& counts) {
  auto run = counts.size() - 1;
  while (run > 0 && counts[run] == 0) --run;
  return sections.parts[static_cast<std::size_t>(Part::kBackward)][run];
}

// What is gathered before the first micro-batch is there, and recomputed before a gradient is. Not
// of stages that end inside layers, which recompute in an order of their own.
void add_what_need_not_wait(const Sections& sections, const RunCounts& counts, Passages& passages,
                            bool one, StageTimes& out) {
  constexpr double kRounding = 1e-9;
  if (out.first > kRounding * out.forward) {
    out.first_late = time_from_input(sections, counts, passages, Part::kForward, true, one,
                                     out.forward + out.first) -
                     out.forward;
  }
  if (first_backward(sections, counts).flow->begins_without_input) {
    out.backward_early =
        std::max(0.0, out.backward - time_from_input(sections, counts, passages, Part::kBackward,
                                                     false, false, out.backward));
  }
}

// A stage's turns one after the other.
struct StageTurns {
  StageTimer& timer;
  Streams& streams;
  double& now;
  double more = 0;  // beside the next turn, until the output is there

  // Returns what it takes.
  double run(Part part, bool first, bool last) {
    const auto before = now;
    const auto output = timer.run(part, first, last, now, streams);
    now = std::max(before, streams[0]);
    more = output - now;
    // The next turn to be timed need not be the next one there.
    if (more > 0) {
      for (auto& stream : streams) stream = std::min(stream, now);
    }
    return now - before;
  }
};

Beginning beginning(const Sections& sections, const RunCounts& counts, Passages& passages, bool one,
                    StageTimer& timer) {
  Beginning begun{.counts = counts, .times = {}, .streams = timer.idle()};
  StageTurns turns{timer, begun.streams, begun.now};
  auto& out = begun.times;
  const auto first = turns.run(Part::kForward, true, one);
  turns.run(Part::kBackward, false, false);
  out.forward = turns.run(Part::kForward, false, false);
  out.forward_more = turns.more;
  out.backward = turns.run(Part::kBackward, false, false);
  out.backward_more = turns.more;
  out.first = first - out.forward;
  add_what_need_not_wait(sections, counts, passages, one, out);
  turns.run(Part::kForward, false, false);
  return begun;
}

}  // namespace

double time_of_step(const Sections& sections, const RunCounts& counts, Passages& passages,
                    std::int64_t micro_batches) {
  StageTimer timer(sections, counts, passages);
  auto streams = timer.idle();
  double now = 0;
  const auto run = [&](bool first, bool last) {
    now = timer.run(Part::kForward, first, last, 0, streams);
    now = timer.run(Part::kBackward, first, last, now, streams);
  };
  const auto once = [&](std::int64_t m) { run(m == 0, m + 1 == micro_batches); };
  // Once a micro-batch adds to every stream what the one before did, the rest is multiplied.
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
  return std::max(now, latest(streams));
}

StageTimes times_of_stage(const Sections& sections, const RunCounts& counts, Passages& passages,
                          std::int64_t micro_batches, Beginnings& known) {
  const bool one = micro_batches == 1;
  // What has run together slows down what comes after.
  const bool is_shared = passages.begin_as_others() && !one && sections.interference == 0;
  StageTimer timer(sections, counts, passages, false);
  const auto found = is_shared ? std::ranges::find(known, counts, &Beginning::counts) : known.end();
  auto begun = found != known.end() ? *found : beginning(sections, counts, passages, one, timer);
  if (is_shared && found == known.end()) known.push_back(begun);
  auto& [of_counts, out, streams, now] = begun;
  StageTurns turns{timer, streams, now};
  out.last = turns.run(Part::kBackward, false, true) - out.backward;
  const auto reduced = latest(streams);
  timer.update(streams);
  out.after = latest(streams) - now;
  out.updates = sections.sum_of(counts).updates;
  out.after = std::max(out.after, out.updates);
  out.reductions = reduced - now;
  if (sections.takes_host) add_host(sections, counts, passages, out);
  return out;
}

}  // namespace tandem::predict
