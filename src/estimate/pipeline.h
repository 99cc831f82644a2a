// Stages put together: when the turns of every rank of a pipeline run (lower/order.h), each with
// its stage's time, and what goes from stage to stage.
#pragma once

#include <vector>

#include "estimate/turns.h"

namespace tandem::estimate {

// Of one stage, in seconds.
struct StageTimes {
  double forward = 0;
  double backward = 0;
  double dispatch = 0;           // of the host, for a forward pass
  double dispatch_backward = 0;  // and a backward pass
  double wait = 0;        // of the host for the device, and then so long, before each forward
  double first = 0;       // what the first micro-batch's forward pass takes longer
  double last = 0;        // what the last one's backward pass takes longer
  double reductions = 0;  // of gradients, that the last backward pass starts
  double after = 0;       // from the end of the last backward pass to the end of the updates
  double updates = 0;     // in `after`, the updates themselves
};

// Of an activation from a rank to the next one, the last one's to the first, or of its gradient
// back.
struct Transfer {
  double time = 0;
  bool by_device = false;  // devices compute nothing meanwhile
};

struct PipelineTime {
  double end = 0;               // of the step
  std::vector<double> busy;     // by rank: in turns and updates
  std::vector<double> exposed;  // by rank: sends and receives with nothing beside
};

// The times of sending a weight that the first and the last stage use from one to the other, and
// its gradient back.
struct Tied {
  double weight = 0;
  double gradient = 0;
};

// `transfers`: by rank that sends forward. Turn by turn until a round of the pipeline repeats the
// one before it; the rest follows.
PipelineTime time_of(const plan::Schedule& schedule, const std::vector<StageTimes>& stages,
                     const std::vector<Transfer>& transfers, const Tied& tied, TurnTables& turns);

// The same, turn by turn however many there are: what tests hold the first against.
PipelineTime time_of_every_turn(const plan::Schedule& schedule,
                                const std::vector<StageTimes>& stages,
                                const std::vector<Transfer>& transfers, const Tied& tied,
                                TurnTables& turns);

}  // namespace tandem::estimate
