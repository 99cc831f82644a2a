#include "predict/fold/sections.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "predict/breakdown.h"
#include "predict/collectives.h"
#include "predict/gradient_sync.h"

namespace tandem::predict {

namespace {

using lower::BufferId;
using lower::Program;
using lower::Task;
using lower::TaskKind;

std::size_t get_phase_index(const Task& task) {
  if (task.kind == TaskKind::kUpdate) return static_cast<std::size_t>(lower::Phase::kUpdate);
  return static_cast<std::size_t>(task.backward ? lower::Phase::kBackward : lower::Phase::kForward);
}

std::size_t find_kind_index(const Program& program, const Task& task) {
  if (task.kind == TaskKind::kMove && !is_local(task.step.kind)) {
    return 2 + static_cast<std::size_t>(task.step.kind);
  }
  return get_task_kind(program, task) == "embedding" ? 1 : 0;
}

// Position of a task: its phase and its section. Tasks of a section that are outside of the run
// count as tasks of the neighboring section.
struct Where {
  std::size_t part = 0;
  std::size_t section = 0;  // from 1; 0 and kSections + 1 for tasks outside of the run
  bool runs = true;
  [[nodiscard]] std::size_t number() const { return part * kPlaces + section; }
  static constexpr std::size_t kPlaces = kSections + 2;
};
class PartSet {
 public:
  void add(const Where& where) { bits_ |= 1U << where.number(); }
  [[nodiscard]] bool has(const Where& where) const { return (bits_ >> where.number() & 1U) != 0; }
  [[nodiscard]] bool has_phase(std::size_t part) const {
    constexpr auto kAll = (1U << Where::kPlaces) - 1;
    return (bits_ >> part * Where::kPlaces & kAll) != 0;
  }

 private:
  std::uint32_t bits_ = 0;
  static_assert(kParts * Where::kPlaces <= 32);
};

constexpr std::uint32_t kNoSlot = 0xffffffff;

// Returns whether a device has more data after the step (machine/reshard.h).
bool grows(machine::Step step) {
  using machine::Step;
  constexpr std::array kGrowing = {Step::kGather, Step::kAllGather, Step::kBroadcast, Step::kPad,
                                   Step::kZero};
  return std::ranges::find(kGrowing, step) != kGrowing.end();
}

// Writers and readers of a buffer, and its slot in each phase of each section.
struct BufferUses {
  std::optional<Where> first_writer;
  PartSet writers, readers;
  bool gathered = false;  // whether it is a regathered weight
  std::array<std::uint32_t, kParts* Where::kPlaces> slots = {};

  BufferUses() { slots.fill(kNoSlot); }
};

// Runs to compile of a program: by section, the index of the run that it becomes, if any.
using Wanted = std::array<std::optional<std::size_t>, kSections>;

class Compiler {
 public:
  Compiler(const Program& program, const machine::Machine& machine, const Durations& durations,
           const std::vector<Where>& where, const Wanted& wanted, Sections& out)
      : program_(program),
        machine_(machine),
        durations_(durations),
        where_(where),
        wanted_(wanted),
        uses_(program.buffers.size()),
        out_(out) {
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      if (where[t].runs) record_uses(program_.tasks[t], where[t]);
    }
    for (auto& part : flows_) part.resize(out.runs());
  }

  // Compiles the tasks in this order.
  void run(const std::vector<std::size_t>& order) {
    for (const auto t : order) {
      const auto run = find_run(where_[t].section);
      if (where_[t].runs && run) add(t, *run);
    }
    for (std::size_t b = 0; b < uses_.size(); ++b) mark_awaited_slots(BufferId(b));
    for (const auto& run : wanted_) {
      if (!run) continue;
      set_begins_without_input(out_.parts[kBackwardPart][*run].tasks, flows_[kBackwardPart][*run]);
      for (std::size_t p = 0; p < kParts; ++p) {
        mark_waiting_tasks(flows_[p][*run], out_.parts[p][*run].tasks);
        auto flow = std::make_shared<const Dataflow>(std::move(flows_[p][*run]));
        out_.parts[p][*run].flow = std::move(flow);
      }
    }
  }

 private:
  [[nodiscard]] std::optional<std::size_t> find_run(std::size_t section) const {
    return section == 0 || section > kSections ? std::nullopt : wanted_[section - 1];
  }

  void record_uses(const Task& task, const Where& where) {
    for (auto b : task.reads) {
      if (b != Program::kNone) uses_[b.index()].readers.add(where);
    }
    for (auto b : task.writes) {
      auto& uses = uses_[b.index()];
      if (!uses.first_writer) uses.first_writer = where;
      uses.writers.add(where);
      uses.gathered = task.kind == TaskKind::kMove && task.recomputed;
    }
  }

  void add(std::size_t t, std::size_t run) {
    const auto& task = program_.tasks[t];
    const auto& where = where_[t];
    auto& part = out_.parts[where.part][run];
    auto& flow = flows_[where.part][run];
    TimedTask timed{.duration = durations_.get_duration(t, 0).value,
                    .dispatch = durations_.dispatch_time(t, 0).value,
                    .kind = static_cast<std::uint8_t>(find_kind_index(program_, task)),
                    .stream = find_stream(task),
                    .when = task.when,
                    .accumulates = task.kind == TaskKind::kAccumulateGradient,
                    .task = static_cast<std::uint32_t>(t),
                    .first_use = static_cast<std::uint32_t>(flow.uses.size())};
    for (auto b : task.reads) {
      if (b == Program::kNone || !is_written_in(b, where.part)) continue;
      flow.uses.push_back(assign_slot(b, where, flow));
      ++timed.reads;
    }
    for (auto b : task.writes) {
      flow.uses.push_back(assign_slot(b, where, flow));
      ++timed.writes;
    }
    part.tasks.push_back(timed);
    if (timed.kind >= 2) {
      out_.collectives.push_back({where.part, run, part.tasks.size() - 1, task.step.kind,
                                  task.step.digits, count_moved_bytes(program_, task),
                                  durations_.is_joined(t)});
    }
    out_.model_flops[run] += durations_.model_flops(t).value;
  }

  // Returns whether a task of the phase writes the buffer; otherwise it is ready when the phase
  // begins. Updates read gradients from the backward pass.
  [[nodiscard]] bool is_written_in(BufferId b, std::size_t part) const {
    const auto& writers = uses_[b.index()].writers;
    if (writers.has_phase(part)) return true;
    return part == kUpdatePart &&
           (writers.has_phase(kBackwardPart) || writers.has_phase(kSynchronize));
  }

  std::uint32_t assign_slot(BufferId b, const Where& where, Dataflow& flow) {
    auto& slot = uses_[b.index()].slots[where.number()];
    if (slot == kNoSlot) {
      slot = flow.slots++;
      const bool in_order =
          uses_[b.index()].gathered;  // `mark_awaited_slots` adds these in the order of buffers
      if (comes_from_neighbour(b, where) && !in_order) flow.from_neighbour.push_back(slot);
    }
    return slot;
  }

  // Returns whether the buffer comes from the neighboring section. Buffers from further away have
  // long been ready.
  [[nodiscard]] bool comes_from_neighbour(BufferId b, const Where& where) const {
    const auto& writer = *uses_[b.index()].first_writer;
    if (where.part == kUpdatePart) return computes_gradients(writer.part);
    return writer.part == where.part && follows(where.section, writer.section, where.part);
  }

  // Returns whether the section is the next one after `other` in its phase.
  static bool follows(std::size_t section, std::size_t other, std::size_t part) {
    return part == kForwardPart ? section == other + 1 : section + 1 == other;
  }

  static bool computes_gradients(std::size_t part) {
    return part == kBackwardPart || part == kSynchronize;
  }

  // Adds the buffer's slots to the lists of slots that other sections wait for.
  void mark_awaited_slots(BufferId b) {
    const auto& uses = uses_[b.index()];
    for (std::size_t p = 0; p < kParts; ++p) {
      if (!uses.writers.has_phase(p)) continue;
      for (std::size_t s = 1; s <= kSections; ++s) {
        const Where here{p, s};
        const auto slot = uses.slots[here.number()];
        if (slot == kNoSlot) continue;
        auto& flow = flows_[p][*find_run(s)];
        if (uses.gathered && comes_from_neighbour(b, here)) flow.gathered_before.push_back(slot);
        if (!uses.writers.has(here)) continue;
        auto& to_next = uses.gathered ? flow.gathered_for_next : flow.to_neighbour;
        for (std::size_t next = 0; next < Where::kPlaces; ++next) {
          if (follows(next, s, p) && uses.readers.has({p, next})) to_next.push_back(slot);
        }
        if (computes_gradients(p) && uses.readers.has_phase(kUpdatePart)) {
          flow.gradients.push_back(slot);
        }
      }
    }
  }

  static void mark_waiting_tasks(const Dataflow& flow, std::vector<TimedTask>& tasks) {
    std::vector<bool> after_input(flow.slots);
    for (auto slot : flow.from_neighbour) after_input[slot] = true;
    for (auto slot : flow.gathered_before) after_input[slot] = true;
    for (auto& task : tasks) {
      const auto uses = std::span(flow.uses).subspan(task.first_use);
      for (auto slot : uses.first(task.reads)) task.waits = task.waits || after_input[slot];
      if (!task.waits || task.when != lower::When::kEach) continue;
      for (auto slot : uses.subspan(task.reads, task.writes)) after_input[slot] = true;
    }
  }

  // Sets whether the first task that takes time is independent of the section before. Dependencies
  // through tasks that take no time count.
  static void set_begins_without_input(const std::vector<TimedTask>& tasks, Dataflow& flow) {
    std::vector<bool> after_input(flow.slots);
    for (auto slot : flow.from_neighbour) after_input[slot] = true;
    for (const auto& task : tasks) {
      const auto uses = std::span(flow.uses).subspan(task.first_use);
      const bool waits =
          std::ranges::any_of(uses.first(task.reads), [&](auto slot) { return after_input[slot]; });
      if (task.duration > 0) {
        flow.begins_without_input = !waits;
        return;
      }
      if (!waits) continue;
      for (auto slot : uses.subspan(task.reads, task.writes)) after_input[slot] = true;
    }
  }

  [[nodiscard]] std::uint8_t find_stream(const Task& task) const {
    if (task.kind != TaskKind::kMove || is_local(task.step.kind)) return 0;
    const auto level = find_outermost_level(program_.digits, task.step.digits);
    return machine_.levels[level].by_device ? 0 : static_cast<std::uint8_t>(1 + level);
  }

  static constexpr auto kForwardPart = static_cast<std::size_t>(lower::Phase::kForward);
  static constexpr auto kBackwardPart = static_cast<std::size_t>(lower::Phase::kBackward);
  static constexpr auto kUpdatePart = static_cast<std::size_t>(lower::Phase::kUpdate);

  const Program& program_;
  const machine::Machine& machine_;
  const Durations& durations_;
  const std::vector<Where>& where_;  // by task
  const Wanted& wanted_;
  std::vector<BufferUses> uses_;                     // by buffer
  std::array<std::vector<Dataflow>, kParts> flows_;  // by run
  Sections& out_;
};

// Assigns tasks to sections such that each section is a contiguous part of the list. The last tasks
// of a section may be listed among the first of the next one, and one stage runs them in that
// order. Gradients of tensors that both ends of the network use are summed after all layers.
void make_sections_contiguous(const Program& program, std::vector<SectionPlace>& of_task) {
  using lower::Phase;
  const auto is_of = [&](std::size_t t, Phase phase) {
    return get_phase_index(program.tasks[t]) == static_cast<std::size_t>(phase);
  };
  bool behind = false;
  for (std::size_t t = 0; t < of_task.size(); ++t) {
    if (!is_of(t, Phase::kBackward)) continue;
    behind = behind || of_task[t].section == Section::kBefore;
    if (behind && of_task[t].section == Section::kAfter) of_task[t].section = Section::kBefore;
  }
  auto forward = Section::kAfter;
  auto backward = Section::kBefore;
  for (std::size_t t = of_task.size(); t-- > 0;) {
    auto& section = of_task[t].section;
    if (is_of(t, Phase::kForward)) section = forward = std::min(forward, section);
    if (is_of(t, Phase::kBackward)) section = backward = std::max(backward, section);
  }
}

// Moves the sum of an activation's gradients to the place where the last of them is written,
// because a stage sends one gradient back. Example: l0.ffn_sum ends a stage, and l1.attention_norm
// and l1.attention_sum read it; the next stage adds their gradients.
void add_gradients_before_send(const Program& program, std::vector<SectionPlace>& of_task) {
  std::vector<SectionPlace> made(program.buffers.size());  // by buffer
  for (std::size_t t = 0; t < of_task.size(); ++t) {
    const auto& task = program.tasks[t];
    const bool of_activation =
        task.kind == TaskKind::kAddGradients && !is_weight(program.pcg.node(task.node));
    if (of_activation) of_task[t] = made[task.reads[1].index()];
    for (auto b : task.writes) made[b.index()] = of_task[t];
  }
}

// Returns the positions of tasks if the run's section had no other pieces: tasks outside of the run
// move to neighboring sections.
std::vector<Where> restrict_to_run(const Run& run, const Program& program,
                                   const std::vector<SectionPlace>& place,
                                   const std::vector<bool>& of_run, std::vector<Where> where) {
  for (std::size_t t = 0; t < where.size(); ++t) {
    if (of_run[t] || place[t].section != run.section) continue;
    const bool is_after = place[t].piece >= run.from;
    where[t].section = is_after ? where[t].section + 1 : where[t].section - 1;
    where[t].runs = !program.tasks[t].recomputed;
  }
  return where;
}

// Order of a program's tasks on a stage that ends with the run. Tasks that the run recomputes are
// listed before the backward pass of later pieces, because these need them, too. Without the later
// pieces, such a task comes right before the first task that needs it. Example of a stage that ends
// with the attention:
//   folded   recompute attention, recompute ffn, backward ffn, backward bias, backward attention
//   stage    backward bias, recompute attention, backward attention
class RunOrder {
 public:
  RunOrder(const Program& program, const std::vector<bool>& of_run)
      : program_(program), writer_(program.buffers.size(), kNone) {
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      const auto& task = program.tasks[t];
      const bool of_backward = of_run[t] && task.backward;
      if (of_backward && !task.recomputed) has_begun_backward_ = true;
      if (!of_backward || !task.recomputed || has_begun_backward_) {
        if (of_run[t]) append_needed(task);
        order_.push_back(t);
        continue;
      }
      for (auto b : task.writes) writer_[b.index()] = t;
    }
  }
  std::vector<std::size_t> take() { return std::move(order_); }

 private:
  static constexpr auto kNone = static_cast<std::size_t>(-1);

  void append_needed(const Task& task) {
    for (auto b : task.reads) append_writer(b);
    append_writer(task.saved);
  }
  void append_writer(BufferId b) {
    if (b == Program::kNone) return;
    const auto t = std::exchange(writer_[b.index()], kNone);
    if (t == kNone) return;
    append_needed(program_.tasks[t]);
    order_.push_back(t);
  }

  const Program& program_;
  std::vector<std::size_t> writer_;  // by buffer: task that recomputes it and is not taken yet
  bool has_begun_backward_ = false;
  std::vector<std::size_t> order_;
};

}  // namespace

std::string kind_name(std::size_t kind) {
  if (kind < 2) return kind == 0 ? "compute" : "embedding";
  const auto step = static_cast<machine::Step>(kind - 2);
  return step == machine::Step::kSend ? "send_recv" : std::string(name(step));
}

bool Sections::has_tasks(std::size_t part) const {
  return std::ranges::any_of(parts[part], [](const SectionPart& p) { return !p.tasks.empty(); });
}

void Sections::sum_up() {
  constexpr auto kUpdatePart = static_cast<std::size_t>(lower::Phase::kUpdate);
  takes_host = micro_batch > 0 || step > 0;
  for (std::size_t r = 0; r < sums.size(); ++r) {
    auto& sum = sums[r] = {};
    for (std::size_t p = 0; p < kParts; ++p) {
      for (const auto& task : parts[p][r].tasks) {
        const bool each = task.when == lower::When::kEach;
        (each ? sum.each : sum.once)[task.kind] += task.duration;
        if (p == kUpdatePart) sum.updates += task.duration;
        takes_host = takes_host || task.dispatch > 0;
      }
    }
  }
}

Sums Sections::sum_stage(const RunCounts& counts) const {
  Sums out;
  for (std::size_t r = 0; r < runs(); ++r) {
    if (counts[r] == 0) continue;
    const auto times = static_cast<double>(counts[r]);
    for (std::size_t k = 0; k < kKinds; ++k) {
      out.each[k] += times * sums[r].each[k];
      out.once[k] += times * sums[r].once[k];
    }
    out.updates += times * sums[r].updates;
  }
  return out;
}

std::vector<SectionPlace> find_task_places(const Program& program,
                                           const std::vector<SectionPlace>& of_node, Cut cut) {
  std::vector<SectionPlace> out(program.tasks.size());
  // Regathers for an operator are listed before its task.
  SectionPlace next;
  for (std::size_t t = program.tasks.size(); t-- > 0;) {
    const auto& task = program.tasks[t];
    const bool again = task.recomputed && task.kind == TaskKind::kMove;
    if (!again) next = of_node[task.node.index()];
    out[t] = next;
    // Between stages, steps that make a tensor smaller run before the send.
    if (cut == Cut::kInPieces && task.kind == TaskKind::kMove && !task.recomputed &&
        grows(task.step.kind) == task.backward) {
      const auto start = find_chain_start(program.pcg, task.node);
      if (program.pcg.node(start).op.role() == ops::Role::kCompute) out[t] = of_node[start.index()];
    }
  }
  if (cut == Cut::kInPieces) {
    add_gradients_before_send(program, out);
  } else {
    make_sections_contiguous(program, out);
  }
  return out;
}

std::vector<bool> select_run_tasks(const Run& run, const Program& program,
                                   const std::vector<SectionPlace>& place_of_task) {
  std::vector<bool> out(program.tasks.size());
  std::vector<bool> wanted(program.buffers.size());
  const auto is_wanted = [&](BufferId b) { return b != Program::kNone && wanted[b.index()]; };
  const auto want = [&](BufferId b) {
    if (b != Program::kNone) wanted[b.index()] = true;
  };
  for (std::size_t t = out.size(); t-- > 0;) {
    const auto& [section, piece] = place_of_task[t];
    if (section != run.section || piece < run.from || piece >= run.to) continue;
    const auto& task = program.tasks[t];
    out[t] =
        !task.recomputed || is_wanted(task.saved) || std::ranges::any_of(task.writes, is_wanted);
    if (!out[t] || !task.backward) continue;
    std::ranges::for_each(task.reads, want);
    want(task.saved);
  }
  return out;
}

Sections time_sections(const Program& program, const machine::Machine& machine,
                       const std::vector<SectionPlace>& place_of_task, const std::vector<Run>& runs,
                       Operations& known) {
  const auto& software = machine.device.software;
  Sections out;
  out.streams = 1 + machine.levels.size();
  out.micro_batch = software.micro_batch.value;
  out.step = software.step.value;
  out.interference = software.interference;
  // A run for which nothing is compiled has no tasks and no dependencies.
  const auto nothing = std::make_shared<const Dataflow>();
  for (auto& part : out.parts) part.assign(runs.size(), {.tasks = {}, .flow = nothing});
  out.model_flops.resize(runs.size());
  out.sums.resize(runs.size());

  const Durations durations(program, machine, &known);
  const auto late = software.overlap ? std::vector<bool>(program.tasks.size())
                                     : find_tasks_after_backward(program);
  std::vector<Where> where;
  where.reserve(program.tasks.size());
  std::array<std::uint8_t, kSections> pieces{};
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto section = static_cast<std::size_t>(place_of_task[t].section);
    where.push_back({late[t] ? kSynchronize : get_phase_index(program.tasks[t]), 1 + section});
  }
  for (const auto& run : runs) {
    auto& count = pieces[static_cast<std::size_t>(run.section)];
    count = std::max(count, run.to);
  }
  Wanted whole;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto section = static_cast<std::size_t>(runs[r].section);
    if (runs[r].from == 0 && runs[r].to == pieces[section]) {
      whole[section] = r;
      continue;
    }
    Wanted wanted;
    wanted[section] = r;
    const auto of_run = select_run_tasks(runs[r], program, place_of_task);
    const auto of_rest = restrict_to_run(runs[r], program, place_of_task, of_run, where);
    Compiler(program, machine, durations, of_rest, wanted, out)
        .run(RunOrder(program, of_run).take());
  }
  std::vector<std::size_t> all(program.tasks.size());
  std::iota(all.begin(), all.end(), 0);
  Compiler(program, machine, durations, where, whole, out).run(all);
  out.sum_up();
  return out;
}

Sections retime_sections(Sections sections, const Program& program, const machine::Machine& machine,
                         Operations& known) {
  const Durations durations(program, machine, &known);
  for (auto& part : sections.parts) {
    for (auto& run : part) {
      for (auto& task : run.tasks) {
        CHECK(task.task < program.tasks.size());
        task.duration = durations.get_duration(task.task, 0).value;
        task.dispatch = durations.dispatch_time(task.task, 0).value;
      }
    }
  }
  for (auto& c : sections.collectives) {
    const auto task = sections.parts[c.part][c.run].tasks[c.task].task;
    c.bytes = count_moved_bytes(program, program.tasks[task]);
  }
  for (std::size_t r = 0; r < sections.runs(); ++r) {
    auto& flops = sections.model_flops[r] = 0;
    for (const auto& part : sections.parts) {
      for (const auto& task : part[r].tasks) flops += durations.model_flops(task.task).value;
    }
  }
  sections.sum_up();
  return sections;
}

}  // namespace tandem::predict
