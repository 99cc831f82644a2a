#include "predict/covered_time.h"

#include <algorithm>
#include <map>
#include <vector>

namespace tandem::predict {

// Merges the streams, each of which is sorted by time.
Seconds covered_time(std::span<const Span> spans, Seconds iteration) {
  std::map<std::uint32_t, std::vector<const Span*>> streams;
  Seconds end;  // all time before it is counted
  for (const auto& span : spans) {
    streams[span.stream].push_back(&span);
    end = std::max(end, span.end - iteration);
  }
  std::vector<std::span<const Span* const>> left;
  left.reserve(streams.size());
  for (const auto& [stream, of_stream] : streams) left.emplace_back(of_stream);
  const auto start = [](const auto& stream) { return stream.front()->start; };
  Seconds total = end;
  while (!left.empty()) {
    const auto first = std::ranges::min_element(left, {}, start);
    const auto& span = *first->front();
    *first = first->subspan(1);
    if (first->empty()) left.erase(first);
    const auto until = std::min(span.end, iteration);
    if (until <= end) continue;
    total += until - std::max(span.start, end);
    end = until;
  }
  return total;
}

}  // namespace tandem::predict
