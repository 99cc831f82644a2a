// Compute and communication beside each other on one device, where each slows the other down: what
// runs beside the other kind takes 1 + `interference` times as long.
//
// Tasks are scheduled one after another, and the one scheduled later knows the earlier ones: its
// own part beside them is stretched. What it takes from them shows after them: their stream is free
// that much later.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tandem::predict {

enum class Activity : std::uint8_t { kCompute, kCommunication };

class Beside {
 public:
  explicit Beside(double interference) : interference_(interference) {}

  // When a task ends that starts then and takes so long alone.
  [[nodiscard]] Seconds end(Activity activity, Seconds start, Seconds alone) const;
  // It is scheduled: by how much it delays what of the other kind is scheduled already.
  Seconds add(Activity activity, Seconds start, Seconds end);

 private:
  struct Interval {
    Seconds start;
    Seconds end;
  };
  using Intervals = std::vector<Interval>;
  [[nodiscard]] const Intervals& others(Activity activity) const {
    return busy_[activity == Activity::kCompute ? 1 : 0];
  }

  double interference_;
  std::array<Intervals, 2> busy_;  // by activity: in order, apart from each other
};

}  // namespace tandem::predict
