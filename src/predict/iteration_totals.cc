#include "predict/iteration_totals.h"

#include <map>
#include <string>

#include "predict/breakdown.h"
#include "predict/covered_time.h"
#include "predict/task_work.h"

namespace tandem::predict {

namespace {

struct BusyTimes {
  Seconds compute;
  Seconds any;
};

// Returns the busy times of class `number`.
BusyTimes compute_busy_times(const lower::Program& program, const IterationSpans& simulated,
                             std::size_t number) {
  const auto& spans = simulated.by_class[number];
  BusyTimes out;
  for (const auto& span : spans) {
    if (!communicates(program.tasks[span.task])) out.compute += span.end - span.start;
  }
  out.any = covered_time(spans, simulated.iteration);
  return out;
}

std::map<std::string, Seconds> compute_serialized_times(const lower::Program& program,
                                                        std::span<const Span> spans) {
  std::map<std::string, Seconds> out;
  for (const auto& span : spans) {
    out[std::string(get_task_kind(program, program.tasks[span.task]))] += span.end - span.start;
  }
  return out;
}

}  // namespace

std::size_t sum_times(const lower::Program& program, const IterationSpans& simulated,
                      const std::optional<Extrapolation>& further, Simulation& out) {
  BusyTimes most;
  std::size_t busiest = 0;
  for (std::size_t c = 0; c < simulated.by_class.size(); ++c) {
    auto now = compute_busy_times(program, simulated, c);
    if (further) {
      const auto before = compute_busy_times(program, further->fewer, c);
      now = {further->extend(now.compute, before.compute), further->extend(now.any, before.any)};
    }
    if (c > 0 && now.any <= most.any) continue;
    most = now;
    busiest = c;
  }
  out.iteration = simulated.iteration;
  out.serialized = compute_serialized_times(program, simulated.by_class[busiest]);
  if (further) {
    out.iteration = further->extend(out.iteration, further->fewer.iteration);
    auto before = compute_serialized_times(program, further->fewer.by_class[busiest]);
    for (auto& [kind, time] : out.serialized) time = further->extend(time, before[kind]);
  }
  out.compute = most.compute;
  out.exposed_comm = most.any - most.compute;
  out.bubble = out.iteration - most.any;
  return busiest;
}

void add_memory(const lower::Program& program, const machine::Machine& machine,
                std::int64_t micro_batches, Simulation& out) {
  out.group_memory = compute_memory_by_group(program, machine, micro_batches);
  for (const auto& memory : out.group_memory) {
    if (memory.peak < out.memory) continue;
    out.memory = memory.peak;
    out.persistent = memory.persistent;
  }
}

void add_mfu(const lower::Program& program, const machine::Machine& machine, Flops model_flops,
             Simulation& out) {
  out.model_flops = model_flops;
  const Seconds at_peak =
      model_flops / compute_total_peak(machine, find_compute_dtype(program.pcg));
  out.mfu = out.iteration > Seconds{} ? at_peak / out.iteration : 0;
}

}  // namespace tandem::predict
