#include "predict/simulate.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/hash.h"
#include "base/stop.h"
#include "lower/instances.h"
#include "lower/order.h"
#include "predict/alike.h"
#include "predict/beside.h"
#include "predict/breakdown.h"
#include "predict/class_groups.h"
#include "predict/collectives.h"
#include "predict/covered_time.h"
#include "predict/device.h"
#include "predict/durations.h"
#include "predict/few_micro_batches.h"
#include "predict/gradient_sync.h"
#include "predict/holders.h"

namespace tandem::predict {

namespace {

using lower::Program;
using lower::Task;
using lower::TaskKind;
using machine::Step;

constexpr std::size_t kComputeStream = 0;

// A class of devices, on its way through its turns.
struct DeviceClass {
  std::int64_t device = 0;  // that stands for it
  std::size_t group = 0;    // of the machine, that it is in
  std::vector<lower::Turn> turns;
  std::vector<bool> takes_part;  // by task; empty where it is all of its turns' tasks
  std::size_t turn = 0;
  std::size_t task = 0;  // of the turn's segment
  std::vector<Seconds> stream_free;
  std::vector<Seconds> left;   // by stream: what tasks take at least that are still to be scheduled
  std::vector<Seconds> ready;  // by instance
  Seconds host;                // when its host has dispatched all so far
  bool in_turn = false;        // has its turn begun?
  bool has_met = false;        // does the collective that is its task count it already?
  std::int64_t updated = -1;   // the last step whose updates have begun
  Beside beside{0};
};

class Simulator {
 public:
  // The first micro-batches of the program, so many.
  Simulator(const Program& program, const machine::Machine& machine, const Durations& durations,
            Classes spans, Seconds limit, std::int64_t micro_batches)
      : program_(program),
        machine_(machine),
        spans_(spans),
        limit_(limit),
        levels_(machine.levels.size()),
        micro_batches_(micro_batches),
        instances_(program, micro_batches),
        durations_(durations),
        overlap_(machine.device.software.overlap),
        order_(task_order(program, overlap_)),
        is_gradient_sync_(gradient_syncs(program)),
        steps_(lower::steady_steps(program)),
        step_ends_(static_cast<std::size_t>(steps_.simulated)),
        class_digits_(class_digits(program) | group_digits(machine, program.digits)),
        groups_(program.digits, class_digits_),
        roots_(program.tasks.size()) {
    make_classes();
  }

  // False where the iteration takes the limit or more.
  bool run() {
    for (bool moved = true; moved && !is_late_;) {
      moved = false;
      for (std::size_t c = 0; c < classes_.size() && !is_late_; ++c) moved = advance(c) || moved;
    }
    if (is_late_) return false;
    for (const auto& c : classes_) CHECK(c.turn == c.turns.size(), "a class waits for ever");
    cut_out_steady_step();
    return out_.iteration < limit_;
  }

  // Sums up what was run.
  Simulation simulation() {
    finish({});
    put_together();
    return std::move(out_);
  }
  // Sums up a step of more micro-batches than were run: `times` what this one and one of fewer
  // differ by is to be added.
  Simulation simulation_of_more(const Simulator& of_fewer, double times) {
    finish({&of_fewer, times});
    out_.is_extrapolated = true;
    return std::move(out_);
  }

 private:
  // --- Classes ---------------------------------------------------------------------------------

  // Devices differ in what they do, and in how fast by their group.
  void make_classes() {
    const Holders holders(program_);
    const bool may_be_alike = class_digits_ != program_.schedule.digits;
    if (may_be_alike) groups_.join(alike(program_, machine_, holders, groups_));
    const auto touched = may_be_alike ? this->touched(holders) : Touched{};
    std::map<std::pair<std::size_t, std::int64_t>, ListLoads> loads;  // by group and rank
    for (std::size_t number = 0; number < groups_.count(); ++number) {
      const auto device = groups_.device(number);
      DeviceClass c{.device = device,
                    .group = machine_.group_of(device),
                    .turns = {},
                    .takes_part = {},
                    .stream_free = std::vector<Seconds>(1 + 3 * levels_),
                    .left = {},
                    .ready = {},
                    .host = {},
                    .beside = Beside(machine_.device_of(device).software.interference)};
      const auto rank = program_.digits.rank_in_group(device, program_.schedule.digits);
      c.turns = lower::turns_of(program_, micro_batches_, rank, steps_.simulated);
      c.ready.resize(instances_.count(rank));
      std::vector<bool> has_list = {true};
      if (may_be_alike) {
        has_list = lists_of(holders, touched, device);
        for (auto list : touched.of_task) c.takes_part.push_back(has_list[list]);
      }
      if (is_limited()) {
        const auto [at, fresh] = loads.try_emplace({c.group, rank});
        if (fresh) at->second = loads_of(c, touched);
        c.left.resize(c.stream_free.size());
        for (std::size_t l = 0; l < has_list.size(); ++l) {
          for (std::size_t s = 0; s < c.left.size() && has_list[l]; ++s) {
            c.left[s] += at->second[l][s];
          }
        }
      }
      classes_.push_back(std::move(c));
    }
    timeline_.resize(classes_.size());
  }

  // By task: of which kinds the buffers are that it reads or writes, of different such lists.
  struct Touched {
    std::vector<std::vector<std::size_t>> lists;
    std::vector<std::uint32_t> of_task;
  };
  [[nodiscard]] Touched touched(const Holders& holders) const {
    Touched out;
    std::map<std::vector<std::size_t>, std::uint32_t> numbers;
    std::vector<std::size_t> kinds;
    for (const auto& task : program_.tasks) {
      kinds.clear();
      for (const auto* buffers : {&task.reads, &task.writes}) {
        for (auto b : *buffers) {
          if (b != Program::kNone) kinds.push_back(holders.kind(b));
        }
      }
      std::ranges::sort(kinds);
      kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
      const auto [at, fresh] =
          numbers.try_emplace(kinds, static_cast<std::uint32_t>(out.lists.size()));
      if (fresh) out.lists.push_back(kinds);
      out.of_task.push_back(at->second);
    }
    return out;
  }

  // By list: does the device hold a part of any buffer of its kinds? Then it takes part.
  [[nodiscard]] static std::vector<bool> lists_of(const Holders& holders, const Touched& touched,
                                                  std::int64_t device) {
    const auto has = holders.of(device);
    std::vector<bool> out;
    out.reserve(touched.lists.size());
    for (const auto& kinds : touched.lists) {
      out.push_back(std::ranges::any_of(kinds, [&](std::size_t kind) { return has[kind]; }));
    }
    return out;
  }

  // --- The limit -------------------------------------------------------------------------------

  // A step that flows into others has no end of its own.
  [[nodiscard]] bool is_limited() const {
    return steps_.simulated == 1 && limit_ < Seconds{std::numeric_limits<double>::infinity()};
  }

  // Does a device take the task's whole duration on the stream?
  [[nodiscard]] static bool is_whole(const Task& task) {
    return task.kind != TaskKind::kSend && task.kind != TaskKind::kReceive &&
           task.step.kind != Step::kScatter && task.step.kind != Step::kGather;
  }

  // What tasks take in all, by list and stream, for one of a group and rank that does them all.
  using ListLoads = std::vector<std::vector<Seconds>>;
  [[nodiscard]] ListLoads loads_of(const DeviceClass& c, const Touched& touched) const {
    ListLoads out(std::max<std::size_t>(1, touched.lists.size()),
                  std::vector<Seconds>(c.stream_free.size()));
    for (const auto& turn : c.turns) {
      for (auto t : tasks_of(turn)) {
        const auto& task = program_.tasks[t];
        if (!runs_in(task, turn.micro_batch, micro_batches_) || !is_whole(task)) {
          continue;
        }
        const auto list = touched.of_task.empty() ? 0 : touched.of_task[t];
        out[list][stream_of(task, false)] += durations_.of(t, c.group);
      }
    }
    return out;
  }

  [[nodiscard]] bool does(const DeviceClass& c, std::uint32_t t, const lower::Turn& turn) const {
    return (c.takes_part.empty() || c.takes_part[t]) &&
           runs_in(program_.tasks[t], turn.micro_batch, micro_batches_);
  }

  // What the stream has still to do follows.
  void note_time(DeviceClass& c, const Task& task, std::size_t stream, Seconds duration,
                 Seconds ready) {
    if (!is_limited()) return;
    if (is_whole(task)) c.left[stream] = c.left[stream] - duration;
    constexpr double kRounding = 1 + 1e-9;
    const auto end = std::max(ready, c.stream_free[stream] + c.left[stream]);
    is_late_ = is_late_ || end >= kRounding * limit_;
  }

  // --- Events ----------------------------------------------------------------------------------

  // Schedules a class's tasks until one that waits for another class; returns whether any.
  bool advance(std::size_t number) {
    auto& c = classes_[number];
    bool moved = false;
    for (; c.turn < c.turns.size(); ++c.turn, c.task = 0) {
      const auto& turn = c.turns[c.turn];
      const auto& tasks = tasks_of(turn);
      if (!c.in_turn) begin_turn(c, turn);
      for (; c.task < tasks.size(); ++c.task) {
        const auto t = tasks[c.task];
        if (!does(c, t, turn)) continue;
        stop_point();
        if (!schedule(number, t, turn)) return moved;
        if (is_late_) return false;
        moved = true;
      }
      c.in_turn = false;
    }
    return moved;
  }

  [[nodiscard]] const std::vector<std::uint32_t>& tasks_of(const lower::Turn& turn) const {
    return order_[std::size_t{turn.stage} * 3 + static_cast<std::size_t>(turn.part)];
  }

  // Software meets its device before a micro-batch, and before the updates of a step: neither is
  // ahead of the other, and both wait for what is done there.
  void begin_turn(DeviceClass& c, const lower::Turn& turn) const {
    c.in_turn = true;
    const auto& software = machine_.device_of(c.device).software;
    Seconds wait;
    if (turn.part == lower::Part::kForward) wait = software.micro_batch;
    if (turn.part == lower::Part::kUpdate && turn.step != c.updated && !tasks_of(turn).empty()) {
      wait = software.step;
      c.updated = turn.step;
    }
    if (wait > Seconds{}) c.host = std::max(c.host, c.stream_free[kComputeStream]) + wait;
  }

  Seconds& ready(DeviceClass& c, lower::BufferId b, const lower::Turn& turn,
                 std::int64_t step) const {
    return c.ready[instances_.of(b, turn.micro_batch, step)];
  }

  // False if the task waits for what another class has not come to yet.
  bool schedule(std::size_t number, std::uint32_t t, const lower::Turn& turn) {
    const Task& task = program_.tasks[t];
    auto& c = classes_[number];
    const Seconds duration = durations_.of(t, c.group);
    const auto stream = stream_of(task, is_root(t, number));
    Seconds start;
    for (auto b : task.reads) {
      if (b == Program::kNone) continue;
      start = std::max(start, ready(c, b, turn, step_read(task, turn.step)));
    }
    const auto there = start;
    const Seconds dispatched = c.host + durations_.dispatch(t, c.group);
    if (duration > Seconds{}) start = std::max({start, c.stream_free[stream], dispatched});
    if (!overlap_ && is_gradient_sync_[t]) start = std::max(start, c.stream_free[kComputeStream]);
    if (task.kind == TaskKind::kReceive) {
      const auto sent = sent_.find(event(task.peer, turn, root_of(t, number)));
      if (sent == sent_.end()) return false;
      start = std::max(start, sent->second);
    }
    const auto activity = stream == kComputeStream ? Activity::kCompute : Activity::kCommunication;
    const Seconds end = c.beside.end(activity, start, duration);
    Part part{start, end, end};
    if (task.kind == TaskKind::kMove && !is_local(task.step.kind) &&
        (task.step.digits & class_digits_) != 0) {
      const auto with_others = part_with_others(number, t, turn, there, part);
      if (!with_others) return false;
      part = *with_others;
    }
    c.host = dispatched;
    if (part.end > part.start) {
      c.stream_free[stream] = part.end;
      delay_others(c, activity, c.beside.add(activity, part.start, part.end));
      timeline_[number].push_back({t, static_cast<std::uint32_t>(turn.micro_batch),
                                   groups_.told(number)[0], static_cast<std::uint32_t>(stream),
                                   part.start, part.end, static_cast<std::uint32_t>(turn.step)});
    }
    // A receiver takes in while the sender sends.
    if (task.kind == TaskKind::kSend) sent_[event(t, turn, number)] = part.start;
    for (auto b : task.writes) {
      auto& at = ready(c, b, turn, turn.step);
      at = std::max(at, part.ready);
    }
    auto& step_end = step_ends_[static_cast<std::size_t>(turn.step)];
    step_end = std::max(step_end, part.ready);
    note_time(c, task, stream, duration, part.ready);
    return true;
  }

  // What one kind of work takes from the other shows once that is free again.
  static void delay_others(DeviceClass& c, Activity activity, Seconds delay) {
    if (delay == Seconds{}) return;
    for (std::size_t s = 0; s < c.stream_free.size(); ++s) {
      if ((s == kComputeStream) == (activity == Activity::kCommunication)) {
        c.stream_free[s] += delay;
      }
    }
  }

  // The class of the device that a class's own has this from, or sends it to.
  std::size_t root_of(std::uint32_t t, std::size_t number) {
    auto*& roots = roots_[t];
    if (roots == nullptr) {
      const auto& step = program_.tasks[t].step;
      const auto rank = machine::root_of(step, program_.digits);
      roots = &roots_of_[{step.digits, rank}];
      for (std::size_t c = roots->size(); c < groups_.count(); ++c) {
        roots->push_back(static_cast<std::uint32_t>(groups_.member(c, step.digits, rank)));
      }
    }
    return (*roots)[number];
  }

  // When a class's stream is busy with a task, and when what it writes is there.
  struct Part {
    Seconds start;
    Seconds end;
    Seconds ready;
  };

  // What a class does in a move of several, of which `alone` is its part if it waited for nobody
  // and `there` is when it has what it reads; nothing while it must wait.
  std::optional<Part> part_with_others(std::size_t number, std::uint32_t t, const lower::Turn& turn,
                                       Seconds there, Part alone) {
    const auto kind = program_.tasks[t].step.kind;
    if (kind == Step::kScatter) return in_scatter(number, t, turn, alone);
    if (kind == Step::kGather) return in_gather(number, t, turn, there, alone);
    const auto start = meet(number, t, turn, alone.start);
    if (!start) return std::nullopt;
    const auto end = *start + (alone.end - alone.start);
    return Part{*start, end, end};
  }

  // The root of a scatter or gather is busy all the time, another device only with its own shard;
  // what is sent to one device need not wait for what is sent to another. So moves with different
  // roots go on at the same time.
  std::optional<Part> in_scatter(std::size_t number, std::uint32_t t, const lower::Turn& turn,
                                 Part alone) {
    const Task& task = program_.tasks[t];
    const auto root = root_of(t, number);
    if (number == root) {
      sent_[event(t, turn, root)] = alone.start;
      return alone;
    }
    const auto sent = sent_.find(event(t, turn, root));
    if (sent == sent_.end()) return std::nullopt;
    const auto duration = alone.end - alone.start;
    const auto start = std::max(alone.start, sent->second);
    const auto end = start + duration / others_of(task);
    return Part{start, end, std::max(end, sent->second + duration)};
  }

  std::optional<Part> in_gather(std::size_t number, std::uint32_t t, const lower::Turn& turn,
                                Seconds there, Part alone) {
    const Task& task = program_.tasks[t];
    const auto root = root_of(t, number);
    const auto duration = alone.end - alone.start;
    if (number != root) {
      sent_[event(t, turn, number)] = there;
      const auto end = alone.start + duration / others_of(task);
      return Part{alone.start, end, end};
    }
    for (auto c : groups_.of(number, task.step.digits)) {
      if (c == root) continue;
      const auto sent = sent_.find(event(t, turn, c));
      if (sent == sent_.end()) return std::nullopt;
      alone.start = std::max(alone.start, sent->second);
    }
    return Part{alone.start, alone.start + duration, alone.start + duration};
  }

  [[nodiscard]] double others_of(const Task& task) const {
    return static_cast<double>(program_.digits.group_size(task.step.digits) - 1);
  }

  bool is_root(std::uint32_t t, std::size_t number) {
    const auto& task = program_.tasks[t];
    const auto kind = task.step.kind;
    return task.kind == TaskKind::kMove && (kind == Step::kScatter || kind == Step::kGather) &&
           root_of(t, number) == number;
  }

  // When all classes of a collective are there; nothing while some are not.
  std::optional<Seconds> meet(std::size_t number, std::uint32_t t, const lower::Turn& turn,
                              Seconds start) {
    const auto& group = groups_.of(number, program_.tasks[t].step.digits);
    auto& meeting = meetings_[event(t, turn, group[0])];
    auto& has_met = classes_[number].has_met;
    if (meeting.there == 0) meeting.expected = number_in(group, t);
    if (!has_met) {
      ++meeting.there;
      meeting.start = std::max(meeting.start, start);
    }
    has_met = meeting.there < meeting.expected;
    if (has_met) return std::nullopt;
    return meeting.start;
  }

  [[nodiscard]] std::size_t number_in(const std::vector<std::uint32_t>& group,
                                      std::uint32_t t) const {
    return static_cast<std::size_t>(std::ranges::count_if(group, [&](std::uint32_t c) {
      const auto& takes_part = classes_[c].takes_part;
      return takes_part.empty() || takes_part[t];
    }));
  }

  [[nodiscard]] std::size_t stream_of(const Task& task, bool is_root) const {
    if (!communicates(task)) return kComputeStream;
    const auto level = outermost_level(program_.digits, task.step.digits);
    if (machine_.levels[level].by_device) return kComputeStream;
    const bool between_stages = task.kind == TaskKind::kSend || task.kind == TaskKind::kReceive;
    if (between_stages && machine_.device.software.waits_for_sends) return kComputeStream;
    const auto kind = task.step.kind;
    const bool has_root = kind == Step::kScatter || kind == Step::kGather;
    if (task.kind == TaskKind::kMove && !has_root) return 1 + level;
    const bool sends = task.kind == TaskKind::kMove ? is_root == (kind == Step::kScatter)
                                                    : task.kind == TaskKind::kSend;
    return 1 + (sends ? levels_ : 2 * levels_) + level;
  }

  // --- Sums ------------------------------------------------------------------------------------

  // An iteration is what one more step takes: of steps that overlap, from the end of one to that of
  // the next. What starts in that time is one step's work, though not of one step.
  void cut_out_steady_step() {
    const auto at = static_cast<std::size_t>(steps_.steady);
    const Seconds begin = at == 0 ? Seconds{} : step_ends_[at - 1];
    out_.iteration = step_ends_[at] - begin;
    if (at == 0) return;
    for (auto& spans : timeline_) {
      std::erase_if(spans, [&](const Span& span) {
        return span.start < begin || span.start >= step_ends_[at];
      });
      for (auto& span : spans) {
        span.start = span.start - begin;
        span.end = span.end - begin;
      }
    }
  }

  struct Busy {
    Seconds compute;
    Seconds any;
  };

  // The spans of one class; those of a stream come in order.
  [[nodiscard]] Busy busy(std::span<const Span> spans) const {
    Busy out;
    for (const auto& span : spans) {
      if (!communicates(program_.tasks[span.task])) out.compute += span.end - span.start;
    }
    out.any = covered_time(spans, out_.iteration);
    return out;
  }
  [[nodiscard]] std::map<std::string, Seconds> serialized(std::size_t number) const {
    std::map<std::string, Seconds> out;
    for (const auto& span : timeline_[number]) {
      out[std::string(kind_of(program_, program_.tasks[span.task]))] += span.end - span.start;
    }
    return out;
  }

  // What further micro-batches take is told by a step of fewer.
  struct Further {
    const Simulator* fewer = nullptr;
    double times = 0;
  };
  static Seconds with(Further further, Seconds time, Seconds of_fewer) {
    return time + further.times * (time - of_fewer);
  }

  void finish(Further further) {
    Busy most;
    std::size_t busiest = 0;
    for (std::size_t c = 0; c < timeline_.size(); ++c) {
      auto now = busy(timeline_[c]);
      if (further.fewer != nullptr) {
        const auto before = further.fewer->busy(further.fewer->timeline_[c]);
        now = {with(further, now.compute, before.compute), with(further, now.any, before.any)};
      }
      if (c > 0 && now.any <= most.any) continue;
      most = now;
      busiest = c;
    }
    out_.busiest = groups_.told(busiest)[0];
    out_.serialized = serialized(busiest);
    if (further.fewer != nullptr) {
      out_.iteration = with(further, out_.iteration, further.fewer->out_.iteration);
      auto before = further.fewer->serialized(busiest);
      for (auto& [kind, time] : out_.serialized) time = with(further, time, before[kind]);
    }
    out_.compute = most.compute;
    out_.exposed_comm = most.any - most.compute;
    out_.bubble = out_.iteration - most.any;
    out_.group_memory = memory_by_group(program_, machine_, micro_batches_);
    for (const auto& memory : out_.group_memory) {
      if (memory.peak < out_.memory) continue;
      out_.memory = memory.peak;
      out_.persistent = memory.persistent;
    }
    const auto dtype = computing_type(program_.pcg);
    out_.model_flops = durations_.model_flops();
    const Seconds at_peak = out_.model_flops / peak_of_all(machine_, dtype);
    out_.mfu = out_.iteration > Seconds{} ? at_peak / out_.iteration : 0;
  }

  // The timeline of all, or of one of those that are alike.
  void put_together() {
    std::size_t count = 0;
    const auto shown = [&](std::size_t c) {
      return spans_ == Classes::kAll ? groups_.told(c).size() : 1;
    };
    for (std::size_t c = 0; c < timeline_.size(); ++c) count += timeline_[c].size() * shown(c);
    out_.timeline.reserve(count);
    for (std::size_t c = 0; c < timeline_.size(); ++c) {
      for (std::size_t i = 0; i < shown(c); ++i) {
        for (auto span : timeline_[c]) {
          span.device_class = groups_.told(c)[i];
          out_.timeline.push_back(span);
        }
      }
    }
  }

  const Program& program_;
  const machine::Machine& machine_;
  Classes spans_;
  Seconds limit_;
  bool is_late_ = false;  // Is it certain that the iteration takes as long?
  std::size_t levels_;
  std::int64_t micro_batches_;
  lower::Instances instances_;
  const Durations& durations_;
  bool overlap_;  // of gradients' collectives with the backward pass
  std::vector<std::vector<std::uint32_t>> order_;  // by segment
  std::vector<bool> is_gradient_sync_;             // by task
  lower::SteadySteps steps_;
  std::vector<Seconds> step_ends_;
  machine::DigitMask class_digits_;
  ClassGroups groups_;
  // By class, of moves over the same digits with the same root; and by task, where it was asked
  // for.
  std::map<std::pair<machine::DigitMask, std::int64_t>, std::vector<std::uint32_t>> roots_of_;
  std::vector<std::vector<std::uint32_t>*> roots_;
  std::vector<DeviceClass> classes_;

  struct Event {
    std::size_t task;
    std::int64_t step;
    std::int64_t micro_batch;
    std::size_t device_class;
    bool operator==(const Event&) const = default;
  };
  struct HashOfEvent {
    std::size_t operator()(const Event& e) const {
      return hash_combine(hash_combine(e.task, static_cast<Hash>(e.micro_batch)),
                          (e.device_class << 2U) + static_cast<Hash>(e.step));
    }
  };
  static Event event(std::size_t task, const lower::Turn& turn, std::size_t device_class) {
    return {task, turn.step, turn.micro_batch, device_class};
  }
  struct Meeting {
    std::size_t there = 0;  // classes that have come
    std::size_t expected = 0;
    Seconds start;
  };
  std::unordered_map<Event, Seconds, HashOfEvent> sent_;
  std::unordered_map<Event, Meeting, HashOfEvent> meetings_;
  std::vector<std::vector<Span>> timeline_;  // by class
  Simulation out_;
};

}  // namespace

Simulation simulate(const Program& program, const machine::Machine& machine, Classes classes) {
  constexpr Seconds kNever{std::numeric_limits<double>::infinity()};
  return std::move(simulate_within(kNever, program, machine, classes).value());
}

std::optional<Simulation> simulate_within(Seconds limit, const Program& program,
                                          const machine::Machine& machine, Classes classes,
                                          Operations* known, Extent extent) {
  const Durations durations(program, machine, known);
  const auto simulator = [&](std::int64_t micro_batches) {
    return Simulator(program, machine, durations, classes, limit, micro_batches);
  };
  const auto all = program.digits.micro_batches();
  const auto few = extent == Extent::kFew ? few_micro_batches(program) : std::nullopt;
  if (!few) {
    auto whole = simulator(all);
    if (!whole.run()) return std::nullopt;
    return whole.simulation();
  }
  auto fewer = simulator(few->fewer);
  auto more = simulator(few->more);
  if (!fewer.run() || !more.run()) return std::nullopt;
  auto out = more.simulation_of_more(fewer, few->times(all));
  if (out.iteration >= limit) return std::nullopt;
  return out;
}

}  // namespace tandem::predict
