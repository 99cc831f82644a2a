// Stages put together: when the turns of every rank of a pipeline run (lower/order.h), each with
// its stage's time, and what goes from stage to stage.
#pragma once

#include <vector>

#include "predict/fold/turns.h"

namespace tandem::predict {

// Of a turn, from when its host begins: to when the host has dispatched all of it, and to its end
// where the device waits for the host alone. 0 and 0 where the host takes no time.
struct HostTimes {
  double dispatch = 0;
  double end = 0;
};

// Of one stage, in seconds.
struct StageTimes {
  double forward = 0;  // of compute, and what it waits for
  double backward = 0;
  double forward_more = 0;  // then, beside the next turn, until the output is there
  double backward_more = 0;
  double backward_early = 0;  // of `backward`, what is made again before its input is needed
  HostTimes host_first = {}, host_forward = {}, host_backward = {}, host_last = {};
  HostTimes host_update = {};
  double host_reductions = 0;  // as HostTimes::end, of the last backward pass's reductions
  double wait = 0;             // of the host for the device, and then so long, before each forward
  double wait_update = 0;      // and before updates
  double first = 0;            // what the first micro-batch's forward pass takes longer
  double first_late = 0;       // where it comes late: weights are gathered since the step began
  double last = 0;             // what the last one's backward pass takes longer
  double reductions = 0;       // of gradients, that the last backward pass starts
  double after = 0;            // from the end of the last backward pass to the end of the updates
  double updates = 0;          // in `after`, the updates themselves
};

// Of an activation from a stage to the next one, and of its gradient back.
struct Transfer {
  double time = 0;
  double back = 0;
  bool by_device = false;  // devices compute nothing meanwhile
  double dispatch = 0;     // of the hosts at both ends
};

struct PipelineTime {
  double end = 0;               // of the step
  std::vector<double> busy;     // by rank: in turns and updates
  std::vector<double> exposed;  // by rank: sends and receives with nothing beside
};

// The times of sending a weight that the first stage and another one, behind it, use from one to
// the other, and its gradient back.
struct Tied {
  std::size_t stage = 0;
  double weight = 0;
  double gradient = 0;
};

// `transfers`: by stage that sends forward. Turn by turn until a round of the pipeline repeats the
// one before it; the rest follows.
PipelineTime time_of(const plan::Schedule& schedule, std::int64_t ranks,
                     const std::vector<StageTimes>& stages, const std::vector<Transfer>& transfers,
                     const Tied& tied, TurnTables& turns);

// The same, turn by turn however many there are: what tests hold the first against.
PipelineTime time_of_every_turn(const plan::Schedule& schedule, std::int64_t ranks,
                                const std::vector<StageTimes>& stages,
                                const std::vector<Transfer>& transfers, const Tied& tied,
                                TurnTables& turns);

}  // namespace tandem::predict
