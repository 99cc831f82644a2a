#include "report/task_times.h"

#include <algorithm>

#include "predict/breakdown.h"
#include "report/device_classes.h"

namespace tandem::report {

namespace {

// Sweeps over the begins and ends of tasks, and shares out the exposed time. While no task
// computes, the tasks that communicate share the time equally.
class ExposureSweep {
 public:
  ExposureSweep(const lower::Program& program, const predict::Simulation& simulation)
      : program_(program), iteration_(simulation.iteration) {}

  void add(const predict::Span& span) {
    // A task that continues into the next iteration also continues from the previous one.
    if (span.end > iteration_) {
      add_part(span.task, span.start, iteration_);
      add_part(span.task, Seconds{}, span.end - iteration_);
    } else {
      add_part(span.task, span.start, span.end);
    }
  }

  void run(std::vector<TaskTime>& times) {
    std::ranges::sort(edges_, {}, [](const ExposureEvent& e) { return std::pair(e.at, e.begins); });
    Seconds before;
    for (const auto& edge : edges_) {
      if (computing_ == 0) {
        for (auto task : active_) {
          times[task].exposed += (edge.at - before) / static_cast<double>(active_.size());
        }
      }
      before = edge.at;
      if (!predict::communicates(program_.tasks[edge.task])) {
        computing_ += edge.begins ? 1 : -1;
      } else if (edge.begins) {
        active_.push_back(edge.task);
      } else {
        active_.erase(std::ranges::find(active_, edge.task));
      }
    }
  }

 private:
  struct ExposureEvent {
    Seconds at;
    bool begins = false;  // at equal times, ends come before begins
    std::uint32_t task = 0;
  };

  void add_part(std::uint32_t task, Seconds begin, Seconds end) {
    if (end <= begin) return;
    edges_.push_back({begin, true, task});
    edges_.push_back({end, false, task});
  }

  const lower::Program& program_;
  Seconds iteration_;
  std::vector<ExposureEvent> edges_;
  std::vector<std::uint32_t> active_;  // running tasks that communicate
  int computing_ = 0;                  // number of running tasks that compute
};

}  // namespace

std::vector<TaskTime> sum_task_times(const lower::Program& program,
                                     const predict::Simulation& simulation,
                                     std::uint32_t device_class) {
  std::vector<TaskTime> out(program.tasks.size());
  ExposureSweep sweep(program, simulation);
  for (const auto& span : simulation.timeline) {
    if (span.device_class != device_class) continue;
    auto& time = out[span.task];
    if (time.times == 0 || span.start < time.begin) {
      time.begin = span.start;
      time.end = span.end;
    }
    ++time.times;
    time.serialized += span.end - span.start;
    time.last = std::max(time.last, span.end);
    sweep.add(span);
  }
  sweep.run(out);
  return out;
}

std::int64_t find_class_device(const lower::Program& program, const machine::Machine& machine,
                               std::uint32_t device_class) {
  return list_class_devices(program, machine)[device_class];
}

}  // namespace tandem::report
