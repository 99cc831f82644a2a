#include "report/memory_curve.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "lower/instances.h"
#include "lower/schedule_actions.h"

namespace tandem::report {

namespace {

double sum_parts(const predict::Moment& moment) {
  double sum = 0;
  for (auto part : moment.parts) sum += part.value;
  return sum;
}

}  // namespace

std::vector<MemoryPoint> compute_memory_curve(const lower::Program& program, std::int64_t device,
                                              const std::vector<predict::Span>& spans) {
  using Key = std::tuple<std::uint32_t, std::int64_t, std::int64_t>;  // task, micro-batch, step
  std::map<Key, const predict::Span*> span_of;
  for (const auto& span : spans) span_of[{span.task, span.micro_batch, span.step}] = &span;
  const bool flows = lower::choose_steady_steps(program).simulated > 1;

  std::vector<MemoryPoint> out;
  std::size_t found = 0;
  std::optional<predict::Moment> most;
  Seconds since;
  for (const auto& moment : predict::compute_memory_over_time(program, device)) {
    const auto at = span_of.find({moment.task, moment.micro_batch, moment.step});
    const auto* span = at == span_of.end() ? nullptr : at->second;
    if (span != nullptr) ++found;
    // If steps overlap, the timeline has only the tasks that start in one iteration.
    if (flows && (found == 0 || found == spans.size())) continue;
    if (span != nullptr && span->stream == 0) {
      if (most) out.push_back({since, *most});
      since = std::max(since, span->start);
      most = moment;
    } else if (!most || sum_parts(moment) > sum_parts(*most)) {
      most = moment;
    }
  }
  if (most) out.push_back({since, *most});
  return out;
}

}  // namespace tandem::report
