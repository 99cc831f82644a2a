#include "estimate/stage_model.h"

#include <set>

#include "cost/collectives.h"
#include "estimate/folded.h"
#include "lower/lower.h"
#include "plan/parallelize.h"
#include "strategies/grid.h"

namespace tandem::estimate {

namespace {

Bytes tied_bytes(const lower::Program& program, const std::vector<Section>& section_of_task) {
  const auto of_node = sections_of(program.pcg);
  std::set<std::size_t> tied;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    if (section_of_task[t] != Section::kAfter) continue;
    for (auto b : program.tasks[t].reads) {
      if (b == lower::Program::kNone) continue;
      const auto& buffer = program.buffer(b);
      const bool is_first = of_node[buffer.node.index()] == Section::kBefore;
      if (buffer.kind == lower::BufferKind::kWeight && is_first) tied.insert(b.index());
    }
  }
  Bytes out;
  for (auto b : tied) out += program.buffers[b].bytes();
  return out;
}

}  // namespace

std::optional<StageModel> stage_model(const models::Model& model, const machine::Machine& part,
                                      const strategies::Setting& setting, std::int64_t batch,
                                      const Training& training) {
  const auto folded = fold(model, batch, training.dtype);
  if (!folded) return std::nullopt;
  const machine::Digits digits(part);
  const strategies::Problem problem(folded->graph, digits);
  const auto made = strategies::make_strategy(setting, problem);
  const auto* strategy = std::get_if<strategies::Strategy>(&made);
  if (strategy == nullptr) return std::nullopt;
  auto schedule = strategy->schedule;
  schedule.precision = training.precision;
  const machine::Digits with_time(part, schedule.micro_batches);
  const auto program =
      lower::lower(plan::parallelize(folded->graph, with_time, strategy->choices, schedule),
                   with_time, training.optimizer);
  const auto sections = sections_of_tasks(program);
  return StageModel{.layers = folded->layers,
                    .schedule = schedule,
                    .sections = timed_sections(program, part, sections),
                    .footprint = footprint_of(program, sections),
                    .dtype = program.pcg.node(program.pcg.outputs()[0]).type.dtype,
                    .tied = tied_bytes(program, sections)};
}

std::optional<Sections> retimed(const StageModel& stage, machine::DigitMask data,
                                const machine::Digits& from, const machine::Machine& part,
                                const machine::Digits& to, machine::DigitMask to_data) {
  // The digits that stay are the same, in order.
  std::vector<std::size_t> place(from.count());
  std::size_t next = 0;
  for (std::size_t i = 0; i < from.count(); ++i) {
    if (((data >> i) & 1U) != 0) continue;
    while (next < to.count() && ((to_data >> next) & 1U) != 0) ++next;
    if (next == to.count() || to[next].size != from[i].size || to[next].level != from[i].level) {
      return std::nullopt;
    }
    place[i] = next++;
  }
  auto out = stage.sections;
  for (const auto& c : out.collectives) {
    const auto shared = c.digits & data;
    if (shared == 0) continue;
    if (shared != data) return std::nullopt;
    machine::DigitMask digits = to_data;
    for (std::size_t i = 0; i < from.count(); ++i) {
      if (((c.digits & ~data) >> i & 1U) != 0) digits |= machine::DigitMask{1} << place[i];
    }
    auto& task = out.parts[c.part][c.section].tasks[c.task];
    task.duration = cost::collective_time(part, to, c.kind, digits, c.bytes).value;
    const auto level = cost::outermost_level(to, digits);
    task.stream = part.levels[level].by_device ? 0 : static_cast<std::uint16_t>(1 + level);
  }
  return out;
}

}  // namespace tandem::estimate
