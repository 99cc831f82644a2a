#include "estimate/stage.h"

#include <algorithm>
#include <cmath>

namespace tandem::estimate {

namespace {

using lower::Part;
using lower::When;

bool runs(When when, bool first, bool last) {
  return when == When::kEach || (when == When::kFirst ? first : last);
}

// What one more layer adds to every stream.
std::vector<double> difference(const Streams& now, const Streams& before) {
  std::vector<double> out(now.size());
  for (std::size_t s = 0; s < now.size(); ++s) out[s] = now[s] - before[s];
  return out;
}

bool are_close(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kRounding = 1e-9;
  for (std::size_t s = 0; s < a.size(); ++s) {
    if (std::abs(a[s] - b[s]) > kRounding * std::max(std::abs(a[s]), std::abs(b[s]))) return false;
  }
  return true;
}

}  // namespace

StageTimer::StageTimer(const Sections& sections, const SectionCounts& counts)
    : sections_(sections), counts_(counts) {}

double StageTimer::run(Part part, bool first, bool last, double input, Streams& streams) {
  for (std::size_t i = 0; i < kSections; ++i) {
    const auto section = part == Part::kForward ? i : kSections - 1 - i;
    input = run_alike(part, section, first, last, input, streams);
  }
  return input;
}

double StageTimer::run_alike(Part part, std::size_t section, bool first, bool last, double input,
                             Streams& streams) {
  const auto& tasks = sections_.part(part, static_cast<Section>(section));
  auto& reduced = reduced_[section];
  if (part == Part::kBackward && last) reduced.clear();
  const auto count = counts_[section];
  std::vector<double> step;
  for (std::int64_t i = 0; i < count; ++i) {
    auto before = streams;
    before.push_back(input);
    input = run_section(tasks, first, last, input, streams);
    if (part == Part::kBackward && last) reduced.push_back(gradients_);
    if (count <= 3) continue;
    auto now = streams;
    now.push_back(input);
    auto next = difference(now, before);
    if (i + 1 < count && !step.empty() && are_close(step, next)) {
      const auto left = static_cast<double>(count - i - 1);
      for (std::size_t s = 0; s < streams.size(); ++s) streams[s] += left * next[s];
      // Gradients are ready at the pace of whatever stream decides; the last pace seen is kept.
      if (part == Part::kBackward && last) {
        const auto pace = reduced.back() - reduced[reduced.size() - 2];
        for (auto l = i + 1; l < count; ++l) reduced.push_back(reduced.back() + pace);
      }
      return input + left * next.back();
    }
    step = std::move(next);
  }
  return input;
}

double StageTimer::run_section(const SectionPart& part, bool first, bool last, double input,
                               Streams& streams) {
  ready_.assign(part.from_neighbour.size(), 0);
  for (std::size_t s = 0; s < ready_.size(); ++s) {
    if (part.from_neighbour[s]) ready_[s] = input;
  }
  for (const auto& task : part.tasks) {
    if (!runs(task.when, first, last)) continue;
    const auto* use = part.uses.data() + task.first_use;
    double start = 0;
    for (std::uint16_t r = 0; r < task.reads; ++r) start = std::max(start, ready_[*use++]);
    if (task.duration > 0) {
      auto& stream = streams[task.stream];
      start = std::max(start, stream);
      stream = start + task.duration;
    }
    const double end = start + task.duration;
    for (std::uint16_t w = 0; w < task.writes; ++w) {
      auto& ready = ready_[*use++];
      ready = std::max(ready, end);
    }
  }
  gradients_ = 0;
  for (auto s : part.gradients) gradients_ = std::max(gradients_, ready_[s]);
  double output = part.to_neighbour.empty() ? input : 0;
  for (auto s : part.to_neighbour) output = std::max(output, ready_[s]);
  return output;
}

void StageTimer::update(Streams& streams) {
  for (std::size_t section = kSections; section-- > 0;) {
    const auto& tasks = sections_.part(Part::kUpdate, static_cast<Section>(section));
    for (auto ready : reduced_[section]) run_section(tasks, true, true, ready, streams);
  }
}

Serialized serialized(const Sections& sections, const SectionCounts& counts) {
  Serialized out;
  for (const auto& part : sections.parts) {
    for (std::size_t s = 0; s < kSections; ++s) {
      for (const auto& task : part[s].tasks) {
        auto& sum = task.when == When::kEach ? out.each : out.once;
        sum[task.kind] += static_cast<double>(counts[s]) * task.duration;
      }
    }
  }
  return out;
}

}  // namespace tandem::estimate
