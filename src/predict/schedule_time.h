// The step time of a pipeline by what its stages take, and nothing else: no updates, no
// collectives, no host.
#pragma once

#include <memory>
#include <vector>

#include "plan/plan.h"

namespace tandem::predict {

class TurnTables;  // fold/turns.h

// Of one micro-batch in one stage, in seconds.
struct PassTime {
  double forward = 0;
  double backward = 0;
  double early = 0;         // of `backward`, before its gradient comes
  double accumulation = 0;  // of gradients, in `backward` of all micro-batches but one
};

// Keeps the order of the passes of schedules that it has been asked about.
class ScheduleTimes {
 public:
  ScheduleTimes();
  ~ScheduleTimes();

  // `stages`: on so many ranks in turn. Between two stages an activation takes `sent` seconds, its
  // gradient `back`. No step with these stages is faster: with any more work every pass ends later.
  double step(const plan::Schedule& schedule, std::int64_t ranks,
              const std::vector<PassTime>& stages, PassTime between);

 private:
  std::unique_ptr<TurnTables> turns_;
};

}  // namespace tandem::predict
