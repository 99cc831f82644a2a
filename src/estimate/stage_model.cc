#include "estimate/stage_model.h"

#include <set>

#include "cost/collectives.h"
#include "estimate/folded.h"
#include "lower/lower.h"
#include "plan/parallelize.h"
#include "strategies/grid.h"

namespace tandem::estimate {

namespace {

Bytes tied_bytes(const lower::Program& program, const std::vector<Section>& of_node,
                 const std::vector<Section>& section_of_task) {
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

// Of a parallel graph with nothing made again: marks what is, in the model's nodes as they choose
// and in the parallelization operators behind them.
void mark_remade(const std::vector<plan::Choice>& choices, plan::MappedGraph& mapped) {
  auto choice = choices.begin();
  for (auto id : mapped.pcg.ids()) {
    const bool again = is_parallel(mapped.pcg.node(id))
                           ? mapped.remake[mapped.pcg.inputs(id)[0].index()]
                           : (choice++)->remake;
    mapped.remake[id.index()] = mapped.remake[id.index()] || again;
  }
}

}  // namespace

plan::MappedGraph Network::parallelize(const std::vector<plan::Choice>& choices,
                                       const plan::Schedule& schedule,
                                       const machine::Digits& with_time) {
  auto kept = choices;
  for (auto& choice : kept) choice.remake = false;
  auto at = std::ranges::find_if(made_, [&](const Made& m) {
    return m.micro_batches == schedule.micro_batches && m.choices == kept;
  });
  if (at == made_.end()) {
    auto mapped = plan::parallelize(folded_.graph, with_time, kept, schedule);
    at = made_.insert(at, {std::move(kept), schedule.micro_batches, std::move(mapped)});
  }
  auto out = at->mapped;
  out.schedule = schedule;
  mark_remade(choices, out);
  return out;
}

std::optional<StageModel> stage_model(Network& network, const machine::Machine& part,
                                      const strategies::Setting& setting,
                                      const Training& training) {
  const auto made = strategies::make_strategy(setting, network.problem());
  const auto* strategy = std::get_if<strategies::Strategy>(&made);
  if (strategy == nullptr) return std::nullopt;
  auto schedule = strategy->schedule;
  schedule.precision = training.precision;
  const machine::Digits with_time(part, schedule.micro_batches);
  const auto program =
      lower::lower(network.parallelize(strategy->choices, schedule, with_time), with_time,
                   training.optimizer);
  const auto of_node = sections_of(program.pcg);
  const auto of_task = sections_of_tasks(program, of_node);
  return StageModel{.layers = network.folded().layers,
                    .batch = network.folded().batch,
                    .schedule = schedule,
                    .sections = timed_sections(program, part, of_task),
                    .footprint = footprint_of(program, of_node, of_task),
                    .dtype = program.pcg.node(program.pcg.outputs()[0]).type.dtype,
                    .tied = tied_bytes(program, of_node, of_task)};
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
  // The digits of a collective there.
  const auto there = [&](machine::DigitMask digits) {
    machine::DigitMask out = (digits & data) != 0 ? to_data : 0;
    for (std::size_t i = 0; i < from.count(); ++i) {
      if (((digits & ~data) >> i & 1U) != 0) out |= machine::DigitMask{1} << place[i];
    }
    return out;
  };
  auto out = stage.sections;
  const Collective* last = nullptr;  // layers have the same, one after the other
  double time = 0;
  for (const auto& c : out.collectives) {
    const auto shared = c.digits & data;
    if (shared != 0 && shared != data) return std::nullopt;
    if (is_halo(c.kind)) {
      if (shared != 0) return std::nullopt;
      continue;
    }
    const auto digits = there(c.digits);
    const bool same = last != nullptr && last->kind == c.kind && last->digits == c.digits &&
                      last->bytes == c.bytes;
    if (!same) time = cost::collective_time(part, to, c.kind, digits, c.bytes).value;
    last = &c;
    auto& task = out.parts[c.part][c.section].tasks[c.task];
    task.duration = time;
    const auto level = cost::outermost_level(to, digits);
    task.stream = part.levels[level].by_device ? 0 : static_cast<std::uint16_t>(1 + level);
  }
  out.sum_up();
  return out;
}

}  // namespace tandem::estimate
