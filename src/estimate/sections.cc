#include "estimate/sections.h"

#include <algorithm>
#include <optional>

#include "cost/collectives.h"
#include "sim/breakdown.h"
#include "sim/gradient_sync.h"

namespace tandem::estimate {

namespace {

using lower::BufferId;
using lower::Program;
using lower::Task;
using lower::TaskKind;

std::size_t part_of(const Task& task) {
  if (task.kind == TaskKind::kUpdate) return static_cast<std::size_t>(lower::Part::kUpdate);
  return static_cast<std::size_t>(task.backward ? lower::Part::kBackward : lower::Part::kForward);
}

std::size_t kind_of(const Program& program, const Task& task) {
  if (task.kind == TaskKind::kMove && !is_local(task.step.kind)) {
    return 2 + static_cast<std::size_t>(task.step.kind);
  }
  return sim::kind_of(program, task) == "embedding" ? 1 : 0;
}

// Where a task stands among the others; and a set of such places.
struct Where {
  std::size_t part = 0;
  std::size_t section = 0;
  [[nodiscard]] std::size_t number() const { return part * kSections + section; }
};
class Places {
 public:
  void add(const Where& where) { bits_ |= 1U << where.number(); }
  [[nodiscard]] bool has(const Where& where) const { return (bits_ >> where.number() & 1U) != 0; }
  [[nodiscard]] bool has_part(std::size_t part) const {
    constexpr auto kAll = (1U << kSections) - 1;
    return (bits_ >> part * kSections & kAll) != 0;
  }

 private:
  std::uint32_t bits_ = 0;
  static_assert(kParts * kSections <= 32);
};

constexpr std::uint32_t kNoSlot = 0xffffffff;

// Who writes and reads a buffer, and its slots in their parts of sections.
struct Uses {
  std::optional<Where> first_writer;
  Places writers, readers;
  std::array<std::uint32_t, kParts* kSections> slots = {};

  Uses() { slots.fill(kNoSlot); }
};

class Compiler {
 public:
  Compiler(const Program& program, const machine::Machine& machine,
           const std::vector<Section>& section_of_task, sim::Operations& known)
      : program_(program),
        machine_(machine),
        durations_(program, machine, &known),
        uses_(program.buffers.size()) {
    const bool overlap = machine.device.software.overlap;
    const auto late =
        overlap ? std::vector<bool>(program_.tasks.size()) : sim::after_backward(program_);
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const auto& task = program_.tasks[t];
      where_.push_back(
          {late[t] ? kSynchronize : part_of(task), static_cast<std::size_t>(section_of_task[t])});
      note_uses(task, where_.back());
    }
  }

  Sections run() {
    const auto& software = machine_.device.software;
    out_.streams = 1 + machine_.levels.size();
    out_.micro_batch = software.micro_batch.value;
    out_.step = software.step.value;
    out_.interference = software.interference;
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) add(t);
    for (std::size_t b = 0; b < uses_.size(); ++b) mark(BufferId(b));
    out_.sum_up();
    return std::move(out_);
  }

 private:
  void note_uses(const Task& task, const Where& where) {
    for (auto b : task.reads) {
      if (b != Program::kNone) uses_[b.index()].readers.add(where);
    }
    for (auto b : task.writes) {
      auto& uses = uses_[b.index()];
      if (!uses.first_writer) uses.first_writer = where;
      uses.writers.add(where);
    }
  }

  void add(std::size_t t) {
    const auto& task = program_.tasks[t];
    const auto& where = where_[t];
    auto& part = out_.parts[where.part][where.section];
    TimedTask timed{.duration = durations_.of(t, 0).value,
                    .dispatch = durations_.dispatch(t, 0).value,
                    .kind = static_cast<std::uint16_t>(kind_of(program_, task)),
                    .stream = stream_of(task),
                    .when = task.when,
                    .first_use = static_cast<std::uint32_t>(part.uses.size())};
    for (auto b : task.reads) {
      if (b == Program::kNone || !is_made_in(b, where.part)) continue;
      part.uses.push_back(slot(b, where));
      ++timed.reads;
    }
    for (auto b : task.writes) {
      part.uses.push_back(slot(b, where));
      ++timed.writes;
    }
    part.tasks.push_back(timed);
    if (timed.kind >= 2) {
      out_.collectives.push_back({where.part, where.section, part.tasks.size() - 1, task.step.kind,
                                  task.step.digits, moved_bytes(program_, task)});
    }
    out_.of_task.push_back(static_cast<std::uint8_t>(where.number()));
    out_.model_flops[where.section] += durations_.model_flops(t).value;
  }

  // What no task of the part writes is there when it begins. Gradients that updates read come from
  // the backward pass.
  [[nodiscard]] bool is_made_in(BufferId b, std::size_t part) const {
    const auto& writers = uses_[b.index()].writers;
    if (writers.has_part(part)) return true;
    return part == kUpdatePart &&
           (writers.has_part(kBackwardPart) || writers.has_part(kSynchronize));
  }

  std::uint32_t slot(BufferId b, const Where& where) {
    auto& slot = uses_[b.index()].slots[where.number()];
    if (slot == kNoSlot) {
      auto& part = out_.parts[where.part][where.section];
      slot = part.slots++;
      if (comes_from_neighbour(b, where)) part.from_neighbour.push_back(slot);
    }
    return slot;
  }

  // What comes from further away has long been there.
  [[nodiscard]] bool comes_from_neighbour(BufferId b, const Where& where) const {
    const auto& writer = *uses_[b.index()].first_writer;
    if (where.part == kUpdatePart) return makes_gradients(writer.part);
    return writer.part == where.part && follows(where.section, writer.section, where.part);
  }

  // Is the section the next in its part after `other`?
  static bool follows(std::size_t section, std::size_t other, std::size_t part) {
    return part == kForwardPart ? section == other + 1 : section + 1 == other;
  }

  static bool makes_gradients(std::size_t part) {
    return part == kBackwardPart || part == kSynchronize;
  }

  // Which slots others wait for.
  void mark(BufferId b) {
    const auto& uses = uses_[b.index()];
    for (std::size_t p = 0; p < kParts; ++p) {
      if (!uses.writers.has_part(p)) continue;
      for (std::size_t s = 0; s < kSections; ++s) {
        const Where here{p, s};
        const auto slot = uses.slots[here.number()];
        if (slot == kNoSlot || !uses.writers.has(here)) continue;
        auto& part = out_.parts[p][s];
        for (std::size_t next = 0; next < kSections; ++next) {
          if (follows(next, s, p) && uses.readers.has({p, next})) part.to_neighbour.push_back(slot);
        }
        if (p == kBackwardPart && uses.readers.has_part(kUpdatePart)) {
          part.gradients.push_back(slot);
        }
      }
    }
  }

  [[nodiscard]] std::uint16_t stream_of(const Task& task) const {
    if (task.kind != TaskKind::kMove || is_local(task.step.kind)) return 0;
    const auto level = cost::outermost_level(program_.digits, task.step.digits);
    return machine_.levels[level].by_device ? 0 : static_cast<std::uint16_t>(1 + level);
  }

  static constexpr auto kForwardPart = static_cast<std::size_t>(lower::Part::kForward);
  static constexpr auto kBackwardPart = static_cast<std::size_t>(lower::Part::kBackward);
  static constexpr auto kUpdatePart = static_cast<std::size_t>(lower::Part::kUpdate);

  const Program& program_;
  const machine::Machine& machine_;
  sim::Durations durations_;
  std::vector<Uses> uses_;    // by buffer
  std::vector<Where> where_;  // by task
  Sections out_;
};

}  // namespace

std::string_view kind_name(std::size_t kind) {
  if (kind == 0) return "compute";
  return kind == 1 ? "embedding" : machine::name(static_cast<machine::Step>(kind - 2));
}

bool Sections::has_tasks(std::size_t part) const {
  return std::ranges::any_of(parts[part], [](const SectionPart& p) { return !p.tasks.empty(); });
}

void Sections::sum_up() {
  constexpr auto kUpdatePart = static_cast<std::size_t>(lower::Part::kUpdate);
  takes_host = micro_batch > 0 || step > 0;
  for (std::size_t s = 0; s < kSections; ++s) {
    auto& sum = sums[s] = {};
    for (std::size_t p = 0; p < kParts; ++p) {
      for (const auto& task : parts[p][s].tasks) {
        const bool each = task.when == lower::When::kEach;
        (each ? sum.each : sum.once)[task.kind] += task.duration;
        if (each) sum.dispatch[p] += task.dispatch;
        if (p == kUpdatePart) sum.updates += task.duration;
        takes_host = takes_host || task.dispatch > 0;
      }
    }
  }
}

std::vector<Section> sections_of_tasks(const Program& program,
                                       const std::vector<Section>& of_node) {
  std::vector<Section> out(program.tasks.size());
  // What is gathered again for an operator stands before its task.
  auto next = Section::kBefore;
  for (std::size_t t = program.tasks.size(); t-- > 0;) {
    const auto& task = program.tasks[t];
    const bool again = task.remade && task.kind == TaskKind::kMove;
    if (!again) next = of_node[task.node.index()];
    out[t] = next;
  }
  return out;
}

Sections timed_sections(const Program& program, const machine::Machine& machine,
                        const std::vector<Section>& section_of_task, sim::Operations& known) {
  return Compiler(program, machine, section_of_task, known).run();
}

Sections timed_again(Sections sections, const Program& program, const machine::Machine& machine,
                     sim::Operations& known) {
  CHECK(sections.of_task.size() == program.tasks.size());
  const sim::Durations durations(program, machine, &known);
  std::array<std::size_t, kParts * kSections> next{};
  auto collective = sections.collectives.begin();
  sections.model_flops = {};
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto where = sections.of_task[t];
    const auto section = where % kSections;
    auto& task = sections.parts[where / kSections][section].tasks[next[where]++];
    task.duration = durations.of(t, 0).value;
    task.dispatch = durations.dispatch(t, 0).value;
    if (task.kind >= 2) (collective++)->bytes = moved_bytes(program, program.tasks[t]);
    sections.model_flops[section] += durations.model_flops(t).value;
  }
  sections.sum_up();
  return sections;
}

}  // namespace tandem::estimate
