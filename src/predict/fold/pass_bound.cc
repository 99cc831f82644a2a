#include "predict/fold/pass_bound.h"

#include <algorithm>

namespace tandem::predict {

namespace {

using machine::DigitMask;

// By run, the loads of a micro-batch's tasks, but for what data parallel devices send each other;
// and what accumulates gradients, which the ZeRO stage decides.
struct RunLoad {
  std::array<double, Streams::kMost> streams{};
  double accumulation = 0;
};
std::vector<RunLoad> loads_of(const Sections& sections, DigitMask data) {
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

// What a run takes by itself, forward and backward, until its compute ends. Without its longest
// collective each way, which may run before its compute begins, beside that of what comes before.
double time_of_run(const Sections& sections, Passages& passages, std::size_t run) {
  double out = 0;
  for (const auto part : {lower::Part::kForward, lower::Part::kBackward}) {
    double longest = 0;
    for (const auto& task : sections.parts[static_cast<std::size_t>(part)][run].tasks) {
      if (!computes(task.kind)) longest = std::max(longest, task.duration);
    }
    RunCounts counts(sections.runs());
    counts[run] = 1;
    StageTimer timer(sections, counts, passages, false);
    auto streams = timer.idle();
    timer.run(part, false, false, 0, streams);
    out += std::max(0.0, streams[0] - longest);
  }
  return out;
}

// What one layer more between the first and the last adds to a micro-batch, forward and backward.
double steady_layer(const Sections& sections, Passages& passages,
                    const std::vector<std::size_t>& whole) {
  constexpr std::int64_t kLayers = 8;
  double out = 0;
  for (const auto part : {lower::Part::kForward, lower::Part::kBackward}) {
    double before = 0;
    for (const auto layers : {kLayers, kLayers + 1}) {
      RunCounts counts(sections.runs());
      for (std::size_t s = 0; s < kSections; ++s) counts[whole[s]] = 1;
      counts[whole[static_cast<std::size_t>(Section::kMiddle)]] = layers;
      StageTimer timer(sections, counts, passages, false);
      auto streams = timer.idle();
      const auto time = timer.run(part, false, false, 0, streams);
      if (layers > kLayers) out += time - before;
      before = time;
    }
  }
  return out;
}

}  // namespace

PassBound bound_of_pass(LoweredStage& lowered, std::size_t levels, const PassBound* without) {
  constexpr auto kMiddle = static_cast<std::size_t>(Section::kMiddle);
  const auto& model = lowered.stage;
  const auto& whole = lowered.whole;
  const auto loads = loads_of(model.sections, lowered.data);
  PassBound out;
  out.levels.resize(levels);
  for (std::size_t s = 0; s < kSections; ++s) {
    const auto times = s == kMiddle ? static_cast<double>(model.layers - 2) : 1;
    for (std::size_t l = 0; l < levels; ++l) {
      out.levels[l] += times * loads[whole[s]].streams[l + 1];
    }
  }
  for (std::size_t r = 0; r < loads.size(); ++r) {
    const auto& [streams, accumulation] = loads[r];
    const auto exposed = without != nullptr
                             ? without->exposed[r]
                             : std::max(0.0, time_of_run(model.sections, lowered.passages, r) -
                                                 streams[0] - accumulation);
    out.exposed.push_back(exposed);
    out.runs.push_back(streams[0] + exposed);
    out.accumulation.push_back(accumulation);
  }
  const auto steady = steady_layer(model.sections, lowered.passages, whole);
  out.following =
      std::max(0.0, steady - out.runs[whole[kMiddle]] - out.accumulation[whole[kMiddle]]);
  const auto& boundary = model.footprint.boundaries[kMiddle].back();
  out.sent = boundary.activation;
  out.copied = boundary.copied;
  out.gradient_copied = boundary.gradient_copied;
  constexpr auto kActivation = static_cast<std::size_t>(lower::BufferKind::kActivation);
  const auto& held = model.footprint.runs[whole[kMiddle]];
  out.saved = Bytes{std::max(0.0, held.forward.net[kActivation])};
  return out;
}

}  // namespace tandem::predict
