#include "predict/interference.h"

#include <algorithm>

namespace tandem::predict {

Seconds InterferenceModel::compute_end(Activity activity, Seconds start, Seconds alone) const {
  if (interference_ == 0) return start + alone;
  Seconds now = start;
  Seconds left = alone;
  const auto& intervals = get_other_intervals(activity);
  auto at = std::ranges::upper_bound(intervals, start, {}, &BusyInterval::end);
  for (; at != intervals.end(); ++at) {
    const Seconds until = std::max(at->start, now);
    if (now + left <= until) break;
    left = left - (until - now);
    now = until;
    const Seconds beside = (at->end - now) / (1 + interference_);
    if (left <= beside) return now + left * (1 + interference_);
    left = left - beside;
    now = at->end;
  }
  return now + left;
}

Seconds InterferenceModel::add(Activity activity, Seconds start, Seconds end) {
  if (interference_ == 0 || end <= start) return {};
  Seconds shared;
  const auto& other = get_other_intervals(activity);
  for (auto at = std::ranges::upper_bound(other, start, {}, &BusyInterval::end); at != other.end();
       ++at) {
    if (at->start >= end) break;
    shared += std::min(at->end, end) - std::max(at->start, start);
  }
  // Merge the interval with those that it touches.
  auto& own = busy_[static_cast<std::size_t>(activity)];
  const auto first = std::ranges::lower_bound(own, start, {}, &BusyInterval::end);
  auto last = first;
  for (; last != own.end() && last->start <= end; ++last) {
    start = std::min(start, last->start);
    end = std::max(end, last->end);
  }
  const auto place = own.erase(first, last);
  own.insert(place, {start, end});
  return shared * interference_;
}

}  // namespace tandem::predict
