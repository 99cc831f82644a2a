// Combines the times of stages into the time of a pipeline. Each rank runs the slots of its
// schedule (lower/schedule_actions.h), and activations and gradients pass between stages.
#pragma once

#include <vector>

#include "predict/fold/schedule_cache.h"

namespace tandem::predict {

// Times from when the host begins a slot. `dispatch`: until the host has dispatched all of it.
// `end`: until the device has run it, if the device only waits for the host. Both are 0 if the host
// takes no time.
struct HostTimes {
  double dispatch = 0;
  double end = 0;
};

// Times of one stage in seconds.
struct StageTimes {
  double forward = 0;  // compute, and exposed communication that it waits for
  double backward = 0;
  double forward_more = 0;  // after `forward`, overlapping the next slot, until the output is ready
  double backward_more = 0;
  double backward_early = 0;  // part of `backward` that recomputes before the input is needed
  HostTimes host_first = {}, host_forward = {}, host_backward = {}, host_last = {};
  HostTimes host_update = {};
  double host_reductions = 0;  // like HostTimes::end, for the reductions of the last backward pass
  double wait = 0;             // time of the host before each forward pass, once the device is done
  double wait_update = 0;      // the same before updates
  double first = 0;            // additional time of the first micro-batch's forward pass
  double first_late = 0;       // the same, but with weights gathered before its input comes
  double last = 0;             // additional time of the last micro-batch's backward pass
  double reductions = 0;       // gradient reductions that the last backward pass starts
  double after = 0;            // from the end of the last backward pass to the end of the updates
  double updates = 0;          // part of `after`: the updates themselves
};

// Times of sending an activation from one stage to the next, and its gradient back.
struct StageTransfer {
  double time = 0;
  double back = 0;
  bool by_device = false;  // devices cannot compute meanwhile
  double dispatch = 0;     // dispatch time of the hosts at both ends
};

// Time of one step of a pipeline.
struct PipelineTime {
  double end = 0;               // end of the step
  std::vector<double> busy;     // by rank: slots and updates
  std::vector<double> exposed;  // by rank: exposed sends and receives
};

// Times of sending a tied weight from the first stage to `stage`, and its gradient back.
struct TiedTransfer {
  std::size_t stage = 0;
  double weight = 0;
  double gradient = 0;
};

// Returns the time of one step. `transfers[s]` is between stages s and s + 1. It runs slot by slot
// until one round of the pipeline adds the same time as the round before, and extrapolates the
// rest.
PipelineTime compute_pipeline_time(const plan::Schedule& schedule, std::int64_t ranks,
                                   const std::vector<StageTimes>& stages,
                                   const std::vector<StageTransfer>& transfers,
                                   const TiedTransfer& tied, ScheduleCache& actions);

// Returns the result of compute_pipeline_time without extrapolation. Tests compare
// compute_pipeline_time with it.
PipelineTime compute_unextrapolated_time(const plan::Schedule& schedule, std::int64_t ranks,
                                         const std::vector<StageTimes>& stages,
                                         const std::vector<StageTransfer>& transfers,
                                         const TiedTransfer& tied, ScheduleCache& actions);

}  // namespace tandem::predict
