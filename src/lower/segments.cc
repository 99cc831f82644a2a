#include "lower/segments.h"

namespace tandem::lower {

namespace {

Part part_of(const Task& task) {
  if (task.kind == TaskKind::kUpdate) return Part::kUpdate;
  return task.backward ? Part::kBackward : Part::kForward;
}

}  // namespace

void cut_into_segments(Program& program) {
  constexpr std::size_t kParts = 3;
  const auto stages = static_cast<std::size_t>(program.schedule.stages);
  program.segments.reserve(kParts * stages);
  for (std::size_t s = 0; s < stages; ++s) {
    for (auto part : {Part::kForward, Part::kBackward, Part::kUpdate}) {
      program.segments.push_back({static_cast<std::uint16_t>(s), part, {}});
    }
  }
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto& task = program.tasks[t];
    const auto segment = std::size_t{task.stage} * kParts + static_cast<std::size_t>(part_of(task));
    program.segments[segment].tasks.push_back(static_cast<std::uint32_t>(t));
  }
}

}  // namespace tandem::lower
