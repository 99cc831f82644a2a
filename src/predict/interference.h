// Models interference between compute and communication that overlap on one device. A task that
// overlaps tasks of the other kind takes 1 + `interference` times as long during the overlap.
//
// Tasks are scheduled one by one, so only the later task knows of the overlap. `compute_end`
// stretches the later task. `add` returns the delay that the later task causes for the earlier
// ones. The caller adds this delay to the time at which their stream is free again.
//
// Example with an interference of 0.5: compute runs from 2 to 4. Communication starts at 1 and
// takes 2 alone. At 2 it has half of its work done, and the rest takes 1.5: compute_end returns
// 3.5. It overlaps 1.5 of the compute, so `add` returns a delay of 0.75.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tandem::predict {

enum class Activity : std::uint8_t { kCompute, kCommunication };

class InterferenceModel {
 public:
  explicit InterferenceModel(double interference) : interference_(interference) {}

  // Returns when a task ends that starts at `start` and takes `alone` without interference.
  [[nodiscard]] Seconds compute_end(Activity activity, Seconds start, Seconds alone) const;
  // Schedules a task and returns the delay that it causes for scheduled tasks of the other kind.
  Seconds add(Activity activity, Seconds start, Seconds end);

 private:
  struct BusyInterval {
    Seconds start;
    Seconds end;
  };
  using Intervals = std::vector<BusyInterval>;
  [[nodiscard]] const Intervals& get_other_intervals(Activity activity) const {
    return busy_[activity == Activity::kCompute ? 1 : 0];
  }

  double interference_;
  std::array<Intervals, 2> busy_;  // by activity; sorted and disjoint
};

}  // namespace tandem::predict
