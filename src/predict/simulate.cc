#include "predict/simulate.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/hash.h"
#include "base/stop.h"
#include "lower/instances.h"
#include "lower/schedule_actions.h"
#include "predict/breakdown.h"
#include "predict/class_groups.h"
#include "predict/collectives.h"
#include "predict/durations.h"
#include "predict/equivalent_classes.h"
#include "predict/few_micro_batches.h"
#include "predict/gradient_sync.h"
#include "predict/interference.h"
#include "predict/iteration_totals.h"
#include "predict/shard_holders.h"
#include "predict/touched_buffers.h"

namespace tandem::predict {

namespace {

using lower::Program;
using lower::Task;
using lower::TaskKind;
using machine::Step;

constexpr std::size_t kComputeStream = 0;

// State of a class of devices while it runs its schedule slots.
struct DeviceClass {
  std::int64_t device = 0;  // device that represents the class
  std::size_t group = 0;    // machine group of the device
  std::vector<lower::Action> actions;
  std::vector<bool> takes_part;  // by task; empty if it takes part in all tasks of its slots
  std::size_t action = 0;
  std::size_t task = 0;  // index in the slot's segment
  std::vector<Seconds> stream_free;
  std::vector<Seconds> left;   // by stream: lower bound on the time of unscheduled tasks
  std::vector<Seconds> ready;  // by buffer instance
  Seconds host;                // when its host has dispatched all tasks so far
  bool in_action = false;      // whether its slot has begun
  bool has_met = false;        // whether the collective that is its next task already counts it
  std::int64_t updated = -1;   // last step whose updates have begun
  InterferenceModel interference{0};
};

class Simulator {
 public:
  // Simulates the first `micro_batches` micro-batches of the program.
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
        order_(order_tasks(program, overlap_)),
        is_gradient_sync_(find_gradient_syncs(program)),
        steps_(lower::choose_steady_steps(program)),
        step_ends_(static_cast<std::size_t>(steps_.simulated)),
        class_digits_(find_class_digits(program) | find_group_digits(machine, program.digits)),
        groups_(program.digits, class_digits_),
        roots_(program.tasks.size()) {
    make_classes();
  }

  // Runs all tasks. Returns false if the iteration takes `limit_` or more.
  bool run() {
    for (bool moved = true; moved && !is_late_;) {
      moved = false;
      for (std::size_t c = 0; c < classes_.size() && !is_late_; ++c) moved = advance(c) || moved;
    }
    if (is_late_) return false;
    for (const auto& c : classes_)
      CHECK(c.action == c.actions.size(), "deadlock: a class waits forever");
    extract_steady_step();
    return out_.iteration < limit_;
  }

  // Returns the results of the simulated micro-batches.
  Simulation take_result() {
    add_totals(std::nullopt);
    assemble_timeline();
    return std::move(out_);
  }
  // Returns the results of a step with more micro-batches than were run. Adds `factor` times the
  // difference between this simulation and `of_fewer`, one with fewer micro-batches.
  Simulation take_extrapolated_result(const Simulator& of_fewer, double factor) {
    add_totals(Extrapolation{of_fewer.get_spans(), factor});
    out_.is_extrapolated = true;
    return std::move(out_);
  }

 private:
  // --- Classes ---------------------------------------------------------------------------------

  // Creates the classes. Devices differ in their work, and by their group in their speed.
  void make_classes() {
    const Holders holders(program_);
    const bool may_be_alike = class_digits_ != program_.schedule.digits;
    if (may_be_alike) groups_.join(find_equivalent_classes(program_, machine_, holders, groups_));
    const auto touched = may_be_alike ? find_touched(program_, holders) : Touched{};
    std::map<std::pair<std::size_t, std::int64_t>, ListLoads> loads;  // by group and rank
    for (std::size_t number = 0; number < groups_.count(); ++number) {
      const auto device = groups_.device(number);
      DeviceClass c{
          .device = device,
          .group = machine_.find_group(device),
          .actions = {},
          .takes_part = {},
          .stream_free = std::vector<Seconds>(1 + 3 * levels_),
          .left = {},
          .ready = {},
          .host = {},
          .interference = InterferenceModel(machine_.get_device(device).software.interference)};
      const auto rank = program_.digits.rank_in_group(device, program_.schedule.digits);
      c.actions = lower::list_actions(program_, micro_batches_, rank, steps_.simulated);
      c.ready.resize(instances_.count(rank));
      std::vector<bool> has_list = {true};
      if (may_be_alike) {
        has_list = find_held_lists(holders, touched, device);
        for (auto list : touched.of_task) c.takes_part.push_back(has_list[list]);
      }
      if (is_limited()) {
        const auto [at, fresh] = loads.try_emplace({c.group, rank});
        if (fresh) at->second = sum_loads(c, touched);
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

  // --- The limit -------------------------------------------------------------------------------

  // Returns whether the limit applies. A step that overlaps others has no end of its own.
  [[nodiscard]] bool is_limited() const {
    return steps_.simulated == 1 && limit_ < Seconds{std::numeric_limits<double>::infinity()};
  }

  // Returns whether a device is busy for the whole duration of `task`.
  [[nodiscard]] static bool is_busy_throughout(const Task& task) {
    return task.kind != TaskKind::kSend && task.kind != TaskKind::kReceive &&
           task.step.kind != Step::kScatter && task.step.kind != Step::kGather;
  }

  // Total time of tasks, by list and stream, for a device of one group and rank that runs all of
  // them.
  using ListLoads = std::vector<std::vector<Seconds>>;
  [[nodiscard]] ListLoads sum_loads(const DeviceClass& c, const Touched& touched) const {
    ListLoads out(std::max<std::size_t>(1, touched.lists.size()),
                  std::vector<Seconds>(c.stream_free.size()));
    for (const auto& action : c.actions) {
      for (auto t : get_tasks(action)) {
        const auto& task = program_.tasks[t];
        if (!runs_in(task, action.micro_batch, micro_batches_) || !is_busy_throughout(task)) {
          continue;
        }
        const auto list = touched.of_task.empty() ? 0 : touched.of_task[t];
        out[list][find_stream(task, false)] += durations_.get_duration(t, c.group);
      }
    }
    return out;
  }

  [[nodiscard]] bool runs_task(const DeviceClass& c, std::uint32_t t,
                               const lower::Action& action) const {
    return (c.takes_part.empty() || c.takes_part[t]) &&
           runs_in(program_.tasks[t], action.micro_batch, micro_batches_);
  }

  // Subtracts the task from the time that the stream still needs, and checks the limit.
  void update_time_left(DeviceClass& c, const Task& task, std::size_t stream, Seconds duration,
                        Seconds ready) {
    if (!is_limited()) return;
    if (is_busy_throughout(task)) c.left[stream] = c.left[stream] - duration;
    constexpr double kRounding = 1 + 1e-9;
    const auto end = std::max(ready, c.stream_free[stream] + c.left[stream]);
    is_late_ = is_late_ || end >= kRounding * limit_;
  }

  // --- Events ----------------------------------------------------------------------------------

  // Schedules tasks of class `number` until one waits for another class. Returns whether it
  // scheduled any.
  bool advance(std::size_t number) {
    auto& c = classes_[number];
    bool moved = false;
    for (; c.action < c.actions.size(); ++c.action, c.task = 0) {
      const auto& action = c.actions[c.action];
      const auto& tasks = get_tasks(action);
      if (!c.in_action) begin_action(c, action);
      for (; c.task < tasks.size(); ++c.task) {
        const auto t = tasks[c.task];
        if (!runs_task(c, t, action)) continue;
        throw_if_stopped();
        if (!schedule(number, t, action)) return moved;
        if (is_late_) return false;
        moved = true;
      }
      c.in_action = false;
    }
    return moved;
  }

  [[nodiscard]] const std::vector<std::uint32_t>& get_tasks(const lower::Action& action) const {
    return order_[std::size_t{action.stage} * 3 + static_cast<std::size_t>(action.phase)];
  }

  // Adds the host's waits. Before each micro-batch and before the updates of a step, host and
  // device synchronize, and the host then takes this time.
  void begin_action(DeviceClass& c, const lower::Action& action) const {
    c.in_action = true;
    const auto& software = machine_.get_device(c.device).software;
    Seconds wait;
    if (action.phase == lower::Phase::kForward) wait = software.micro_batch;
    if (action.phase == lower::Phase::kUpdate && action.step != c.updated &&
        !get_tasks(action).empty()) {
      wait = software.step;
      c.updated = action.step;
    }
    if (wait > Seconds{}) c.host = std::max(c.host, c.stream_free[kComputeStream]) + wait;
  }

  Seconds& ready_time(DeviceClass& c, lower::BufferId b, const lower::Action& action,
                      std::int64_t step) const {
    return c.ready[instances_.get_index(b, action.micro_batch, step)];
  }

  // Schedules task `t`. Returns false if it waits for a task of another class that is not scheduled
  // yet.
  bool schedule(std::size_t number, std::uint32_t t, const lower::Action& action) {
    const Task& task = program_.tasks[t];
    auto& c = classes_[number];
    const Seconds duration = durations_.get_duration(t, c.group);
    const auto stream = find_stream(task, is_root(t, number));
    Seconds start;
    for (auto b : task.reads) {
      if (b == Program::kNone) continue;
      start = std::max(start, ready_time(c, b, action, get_read_step(task, action.step)));
    }
    const auto there = start;
    const Seconds dispatched = c.host + durations_.dispatch_time(t, c.group);
    if (duration > Seconds{}) start = std::max({start, c.stream_free[stream], dispatched});
    if (!overlap_ && is_gradient_sync_[t]) start = std::max(start, c.stream_free[kComputeStream]);
    if (task.kind == TaskKind::kReceive) {
      const auto sent = sent_.find(make_event(task.peer, action, find_root(t, number)));
      if (sent == sent_.end()) return false;
      start = std::max(start, sent->second);
    }
    const auto activity = stream == kComputeStream ? Activity::kCompute : Activity::kCommunication;
    const Seconds end = c.interference.compute_end(activity, start, duration);
    MoveTimes part{start, end, end};
    if (task.kind == TaskKind::kMove && !is_local(task.step.kind) &&
        (task.step.digits & class_digits_) != 0) {
      const auto with_others = time_shared_move(number, t, action, there, part);
      if (!with_others) return false;
      part = *with_others;
    }
    c.host = dispatched;
    if (part.end > part.start) {
      c.stream_free[stream] = part.end;
      delay_others(c, activity, c.interference.add(activity, part.start, part.end));
      timeline_[number].push_back({t, static_cast<std::uint32_t>(action.micro_batch),
                                   groups_.joined_classes(number)[0],
                                   static_cast<std::uint32_t>(stream), part.start, part.end,
                                   static_cast<std::uint32_t>(action.step)});
    }
    // A receiver receives while the sender sends.
    if (task.kind == TaskKind::kSend) sent_[make_event(t, action, number)] = part.start;
    for (auto b : task.writes) {
      auto& at = ready_time(c, b, action, action.step);
      at = std::max(at, part.ready);
    }
    auto& step_end = step_ends_[static_cast<std::size_t>(action.step)];
    step_end = std::max(step_end, part.ready);
    update_time_left(c, task, stream, duration, part.ready);
    return true;
  }

  // Delays the streams of the other kind of activity: each is free again `delay` later.
  static void delay_others(DeviceClass& c, Activity activity, Seconds delay) {
    if (delay == Seconds{}) return;
    for (std::size_t s = 0; s < c.stream_free.size(); ++s) {
      if ((s == kComputeStream) == (activity == Activity::kCommunication)) {
        c.stream_free[s] += delay;
      }
    }
  }

  // Returns the class of the device that sends to, or receives from, the device of class `number`.
  std::size_t find_root(std::uint32_t t, std::size_t number) {
    auto*& roots = roots_[t];
    if (roots == nullptr) {
      const auto& step = program_.tasks[t].step;
      const auto rank = machine::find_root_rank(step, program_.digits);
      roots = &roots_of_[{step.digits, rank}];
      for (std::size_t c = roots->size(); c < groups_.count(); ++c) {
        roots->push_back(
            static_cast<std::uint32_t>(groups_.get_member_class(c, step.digits, rank)));
      }
    }
    return (*roots)[number];
  }

  // Times of one class in a move: when its stream is busy, and when its results are ready.
  struct MoveTimes {
    Seconds start;
    Seconds end;
    Seconds ready;
  };

  // Returns the times of class `number` in a move of several classes, or nullopt while it must
  // wait. `alone` is its times if it waited for no other class. `there` is when its inputs are
  // ready.
  std::optional<MoveTimes> time_shared_move(std::size_t number, std::uint32_t t,
                                            const lower::Action& action, Seconds there,
                                            MoveTimes alone) {
    const auto kind = program_.tasks[t].step.kind;
    if (kind == Step::kScatter) return time_scatter(number, t, action, alone);
    if (kind == Step::kGather) return time_gather(number, t, action, there, alone);
    const auto start = join_collective(number, t, action, alone.start);
    if (!start) return std::nullopt;
    const auto end = *start + (alone.end - alone.start);
    return MoveTimes{*start, end, end};
  }

  // Returns the times in a scatter. The root of a scatter or gather is busy all the time, another
  // device only with its own shard. Sends to different devices are independent, so moves with
  // different roots overlap.
  std::optional<MoveTimes> time_scatter(std::size_t number, std::uint32_t t,
                                        const lower::Action& action, MoveTimes alone) {
    const Task& task = program_.tasks[t];
    const auto root = find_root(t, number);
    if (number == root) {
      sent_[make_event(t, action, root)] = alone.start;
      return alone;
    }
    const auto sent = sent_.find(make_event(t, action, root));
    if (sent == sent_.end()) return std::nullopt;
    const auto duration = alone.end - alone.start;
    const auto start = std::max(alone.start, sent->second);
    const auto end = start + duration / count_others(task);
    return MoveTimes{start, end, std::max(end, sent->second + duration)};
  }

  std::optional<MoveTimes> time_gather(std::size_t number, std::uint32_t t,
                                       const lower::Action& action, Seconds there,
                                       MoveTimes alone) {
    const Task& task = program_.tasks[t];
    const auto root = find_root(t, number);
    const auto duration = alone.end - alone.start;
    if (number != root) {
      sent_[make_event(t, action, number)] = there;
      const auto end = alone.start + duration / count_others(task);
      return MoveTimes{alone.start, end, end};
    }
    for (auto c : groups_.get_group(number, task.step.digits)) {
      if (c == root) continue;
      const auto sent = sent_.find(make_event(t, action, c));
      if (sent == sent_.end()) return std::nullopt;
      alone.start = std::max(alone.start, sent->second);
    }
    return MoveTimes{alone.start, alone.start + duration, alone.start + duration};
  }

  [[nodiscard]] double count_others(const Task& task) const {
    return static_cast<double>(program_.digits.group_size(task.step.digits) - 1);
  }

  bool is_root(std::uint32_t t, std::size_t number) {
    const auto& task = program_.tasks[t];
    const auto kind = task.step.kind;
    return task.kind == TaskKind::kMove && (kind == Step::kScatter || kind == Step::kGather) &&
           find_root(t, number) == number;
  }

  // Returns when all classes of a collective are ready, or nullopt while some are not.
  std::optional<Seconds> join_collective(std::size_t number, std::uint32_t t,
                                         const lower::Action& action, Seconds start) {
    const auto& group = groups_.get_group(number, program_.tasks[t].step.digits);
    auto& meeting = meetings_[make_event(t, action, group[0])];
    auto& has_met = classes_[number].has_met;
    if (meeting.there == 0) meeting.expected = count_participants(group, t);
    if (!has_met) {
      ++meeting.there;
      meeting.start = std::max(meeting.start, start);
    }
    has_met = meeting.there < meeting.expected;
    if (has_met) return std::nullopt;
    return meeting.start;
  }

  [[nodiscard]] std::size_t count_participants(const std::vector<std::uint32_t>& group,
                                               std::uint32_t t) const {
    return static_cast<std::size_t>(std::ranges::count_if(group, [&](std::uint32_t c) {
      const auto& takes_part = classes_[c].takes_part;
      return takes_part.empty() || takes_part[t];
    }));
  }

  [[nodiscard]] std::size_t find_stream(const Task& task, bool is_root) const {
    if (!communicates(task)) return kComputeStream;
    const auto level = find_outermost_level(program_.digits, task.step.digits);
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

  // --- Results ---------------------------------------------------------------------------------

  // Sets the iteration time. If steps overlap, it is the time from the end of one step to the end
  // of the next. The spans that start in this time are one step's work, although of different
  // steps.
  void extract_steady_step() {
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

  [[nodiscard]] IterationSpans get_spans() const { return {timeline_, out_.iteration}; }

  void add_totals(const std::optional<Extrapolation>& further) {
    const auto busiest = sum_times(program_, get_spans(), further, out_);
    out_.busiest = groups_.joined_classes(busiest)[0];
    add_memory(program_, machine_, micro_batches_, out_);
    add_mfu(program_, machine_, durations_.model_flops(), out_);
  }

  // Assembles the timeline of all classes, or of one of each set of equivalent classes.
  void assemble_timeline() {
    std::size_t count = 0;
    const auto shown = [&](std::size_t c) {
      return spans_ == Classes::kAll ? groups_.joined_classes(c).size() : 1;
    };
    for (std::size_t c = 0; c < timeline_.size(); ++c) count += timeline_[c].size() * shown(c);
    out_.timeline.reserve(count);
    for (std::size_t c = 0; c < timeline_.size(); ++c) {
      for (std::size_t i = 0; i < shown(c); ++i) {
        for (auto span : timeline_[c]) {
          span.device_class = groups_.joined_classes(c)[i];
          out_.timeline.push_back(span);
        }
      }
    }
  }

  const Program& program_;
  const machine::Machine& machine_;
  Classes spans_;
  Seconds limit_;
  bool is_late_ = false;  // whether the iteration certainly takes `limit_` or more
  std::size_t levels_;
  std::int64_t micro_batches_;
  lower::Instances instances_;
  const Durations& durations_;
  bool overlap_;                                   // of gradient collectives with the backward pass
  std::vector<std::vector<std::uint32_t>> order_;  // by segment
  std::vector<bool> is_gradient_sync_;             // by task
  lower::SteadySteps steps_;
  std::vector<Seconds> step_ends_;
  machine::DigitMask class_digits_;
  ClassGroups groups_;
  // Root of each class, by digits and root rank of a move; and by task, null until it is needed.
  std::map<std::pair<machine::DigitMask, std::int64_t>, std::vector<std::uint32_t>> roots_of_;
  std::vector<std::vector<std::uint32_t>*> roots_;
  std::vector<DeviceClass> classes_;

  struct SimulatedEvent {
    std::size_t task;
    std::int64_t step;
    std::int64_t micro_batch;
    std::size_t device_class;
    bool operator==(const SimulatedEvent&) const = default;
  };
  struct HashOfEvent {
    std::size_t operator()(const SimulatedEvent& e) const {
      return hash_combine(hash_combine(e.task, static_cast<Hash>(e.micro_batch)),
                          (e.device_class << 2U) + static_cast<Hash>(e.step));
    }
  };
  static SimulatedEvent make_event(std::size_t task, const lower::Action& action,
                                   std::size_t device_class) {
    return {task, action.step, action.micro_batch, device_class};
  }
  struct Meeting {
    std::size_t there = 0;  // number of classes that have arrived
    std::size_t expected = 0;
    Seconds start;
  };
  std::unordered_map<SimulatedEvent, Seconds, HashOfEvent> sent_;
  std::unordered_map<SimulatedEvent, Meeting, HashOfEvent> meetings_;
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
  const auto few = extent == Extent::kFew ? find_few_micro_batches(program) : std::nullopt;
  if (!few) {
    auto whole = simulator(all);
    if (!whole.run()) return std::nullopt;
    return whole.take_result();
  }
  auto fewer = simulator(few->fewer);
  auto more = simulator(few->more);
  if (!fewer.run() || !more.run()) return std::nullopt;
  auto out = more.take_extrapolated_result(fewer, few->extrapolation_factor(all));
  if (out.iteration >= limit) return std::nullopt;
  return out;
}

}  // namespace tandem::predict
