#include "predict/fold/pass_bound.h"

#include <algorithm>
#include <limits>

namespace tandem::predict {

namespace {

using machine::DigitMask;

// Busy seconds of a micro-batch's tasks, by run and stream. Collectives between data-parallel
// devices do not count. Gradient accumulation is separate, because it depends on the ZeRO stage.
struct RunLoad {
  std::array<double, Streams::kMost> streams{};
  double accumulation = 0;
};
std::vector<RunLoad> compute_run_loads(const Sections& sections, DigitMask data) {
  constexpr std::size_t kPasses = 2;  // forward and backward
  std::vector<RunLoad> out(sections.runs());
  const auto add = [&](const TimedTask& task, RunLoad& run) {
    if (task.when != lower::When::kEach) return;
    (task.accumulates ? run.accumulation : run.streams[task.stream]) += task.duration;
  };
  for (std::size_t p = 0; p < kPasses; ++p) {
    for (std::size_t r = 0; r < sections.runs(); ++r) {
      for (const auto& task : sections.parts[p][r].tasks) {
        if (computes(task.kind)) add(task, out[r]);
      }
    }
  }
  for (const auto& c : sections.collectives) {
    if (c.part >= kPasses || (c.digits & data) != 0) continue;
    add(sections.parts[c.part][c.run].tasks[c.task], out[c.run]);
  }
  return out;
}

// Returns a lower bound on the seconds from when the compute stream is free until it has run a
// run's tasks of every micro-batch, in order. Collectives that depend on none of the run's compute
// may run earlier and do not count. `accumulates`: count gradient accumulation. `comes_late`: the
// input comes late, so tasks that do not wait for it are done by then.
struct Counted {
  bool accumulates = false;
  bool comes_late = false;
};
double bound_run_time(const SectionPart& part, Counted counted) {
  const auto& flow = *part.flow;
  std::vector<double> ready(flow.slots);
  std::vector<bool> needs_compute(flow.slots);
  std::array<double, Streams::kMost> free{};
  for (const auto& task : part.tasks) {
    if (task.when != lower::When::kEach) continue;
    const auto* use = flow.uses.data() + task.first_use;
    double end = 0;
    bool needs = computes(task.kind) && task.duration > 0;
    for (std::uint16_t r = 0; r < task.reads; ++r, ++use) {
      end = std::max(end, ready[*use]);
      needs = needs || needs_compute[*use];
    }
    const bool is_done = counted.comes_late && !task.waits;
    if (needs && (counted.accumulates || !task.accumulates) && task.duration > 0 && !is_done) {
      end = std::max(end, free[task.stream]) + task.duration;
      free[task.stream] = end;
    }
    for (std::uint16_t w = 0; w < task.writes; ++w, ++use) {
      ready[*use] = std::max(ready[*use], end);
      needs_compute[*use] = needs_compute[*use] || needs;
    }
  }
  return free[0];
}

// Returns the seconds that the run takes less if its input comes late.
double early_time(const SectionPart& part) {
  double out = 0;
  for (const bool accumulates : {false, true}) {
    out = std::max(out, bound_run_time(part, {accumulates, false}) -
                            bound_run_time(part, {accumulates, true}));
  }
  return out;
}

// Returns the time that one more layer between the first and the last adds to a micro-batch's pass.
double compute_steady_layer_time(LoweredStage& lowered, lower::Phase phase) {
  constexpr std::int64_t kLayers = 8;
  const auto& sections = lowered.stage.sections;
  double before = 0;
  double out = 0;
  for (const auto layers : {kLayers, kLayers + 1}) {
    RunCounts counts(sections.runs());
    for (const auto run : lowered.whole) counts[run] = 1;
    counts[lowered.whole[static_cast<std::size_t>(Section::kMiddle)]] = layers;
    StageTimer timer(sections, counts, lowered.passages, false);
    auto streams = timer.make_idle_streams();
    const auto time = timer.run(phase, false, false, 0, streams);
    out = time - before;
    before = time;
  }
  return out;
}

// Returns the time to add the gradients of both uses of a tied weight, which two stages do once a
// step.
double tied_time(const StageModel& stage, const machine::Device& device) {
  if (stage.tied.moved) return 0;
  const Work work{.flops = {}, .bytes = 3 * stage.tied.bytes};
  return task_time(device, work, stage.dtype).value;
}

// Appends the bounds of one kind of devices.
void add_units(LoweredStage& lowered, MicroBatchBound& out) {
  const auto& sections = lowered.stage.sections;
  const auto middle = lowered.whole[static_cast<std::size_t>(Section::kMiddle)];
  const auto loads = compute_run_loads(sections, lowered.data);
  const auto first = out.units.size();
  double following = 0;
  double forward = 0;
  for (std::size_t r = 0; r < loads.size(); ++r) {
    const auto& [streams, accumulation] = loads[r];
    const auto forward_time = bound_run_time(sections.parts[0][r], {});
    const auto& back = sections.parts[1][r];
    const auto time = std::max(forward_time + bound_run_time(back, {}), streams[0]);
    const auto all = std::max(forward_time + bound_run_time(back, {.accumulates = true}),
                              streams[0] + accumulation);
    out.forward.push_back(forward_time);
    out.units.push_back(time);
    out.early.push_back(early_time(back));
    out.accumulation.push_back(all - time);
  }
  forward = std::max(0.0, compute_steady_layer_time(lowered, lower::Phase::kForward) -
                              out.forward[first + middle]);
  const auto backward = out.units[first + middle] - out.forward[first + middle];
  following = forward + std::max(0.0, compute_steady_layer_time(lowered, lower::Phase::kBackward) -
                                          backward - out.accumulation[first + middle]);
  // Exposed communication differs between kinds of devices with different compute speed. Take the
  // minimum.
  out.following = first == 0 ? following : std::min(out.following, following);
  out.following_forward = first == 0 ? forward : std::min(out.following_forward, forward);
}

}  // namespace

MicroBatchBound compute_micro_batch_bound(const std::vector<LoweredStage*>& on,
                                          const DeviceKinds& kinds, std::size_t levels) {
  constexpr auto kMiddle = static_cast<std::size_t>(Section::kMiddle);
  const auto& model = on[0]->stage;
  const auto& whole = on[0]->whole;
  const auto loads = compute_run_loads(model.sections, on[0]->data);
  MicroBatchBound out;
  out.levels.resize(levels);
  for (std::size_t s = 0; s < kSections; ++s) {
    const auto times = s == kMiddle ? static_cast<double>(model.layers - 2) : 1;
    double compute = std::numeric_limits<double>::infinity();
    for (auto* lowered : on) {
      compute = std::min(
          compute, compute_run_loads(lowered->stage.sections, lowered->data)[whole[s]].streams[0]);
    }
    out.compute += times * compute;
    for (std::size_t l = 0; l < levels; ++l) {
      out.levels[l] += times * loads[whole[s]].streams[l + 1];
    }
  }
  for (std::size_t kind = 0; kind < on.size(); ++kind) {
    add_units(*on[kind], out);
    out.tied.push_back(tied_time(on[kind]->stage, kinds.machine(kind).device));
  }
  // If stages end inside layers, take the smallest of all tensors that may be sent.
  auto boundaries = model.footprint.boundaries[kMiddle];
  if (boundaries.size() > 1) {
    for (const auto& of_section : model.footprint.boundaries) {
      boundaries.insert(boundaries.end(), of_section.begin(), of_section.end());
    }
    std::erase_if(boundaries, [](const auto& boundary) { return boundary.activation == 0; });
  }
  out.sent = Bytes{std::ranges::min(boundaries, {}, &Boundary::activation).activation};
  out.copied = std::ranges::any_of(boundaries, &Boundary::copied);
  out.gradient_copied = std::ranges::any_of(boundaries, &Boundary::gradient_copied);
  constexpr auto kActivation = static_cast<std::size_t>(lower::BufferKind::kActivation);
  const auto& held = model.footprint.runs[whole[kMiddle]];
  out.saved = Bytes{std::max(0.0, held.forward.net[kActivation])};
  return out;
}

}  // namespace tandem::predict
