#include "sim/simulate.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "cost/collectives.h"
#include "cost/operator_time.h"
#include "lower/instances.h"
#include "lower/order.h"

namespace tandem::sim {

namespace {

using graph::NodeId;
using lower::Program;
using lower::Task;
using lower::TaskKind;

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
  std::vector<Seconds> ready;  // by instance
};

class Simulator {
 public:
  Simulator(const Program& program, const machine::Machine& machine)
      : program_(program), machine_(machine), levels_(machine.levels.size()), instances_(program) {
    if (machine_.groups.empty()) devices_.push_back(&machine_.device);
    for (const auto& group : machine_.groups) devices_.push_back(&group.device);
    for (const auto& task : program_.tasks) add_durations(task);
    make_classes();
  }

  Simulation run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t c = 0; c < classes_.size(); ++c) moved = advance(c) || moved;
    }
    for (const auto& c : classes_) CHECK(c.turn == c.turns.size(), "a class waits for ever");
    finish();
    return std::move(out_);
  }

 private:
  // --- Classes ---------------------------------------------------------------------------------

  // Devices differ in what they do by their place in digits that are idle at several places, and
  // in how fast by their group. In digits that are idle at 0 only, the device there does the most
  // and stands for the others.
  void make_classes() {
    class_digits_ = program_.schedule.digits | group_digits(machine_, program_.digits);
    for (const auto& buffer : program_.buffers) {
      for (std::size_t i = 0; i < program_.digits.count(); ++i) {
        const auto role = buffer.layout[i];
        if (role.is_idle() && role.place() != 0) class_digits_ |= machine::DigitMask{1} << i;
      }
    }
    for (auto device : program_.digits.group(0, class_digits_)) {
      DeviceClass c{.device = device,
                    .group = machine_.group_of(device),
                    .turns = {},
                    .takes_part = {},
                    .stream_free = std::vector<Seconds>(1 + 3 * levels_),
                    .ready = {}};
      const auto& schedule = program_.schedule;
      const auto rank = program_.digits.rank_in_group(device, schedule.digits);
      c.turns = lower::turns_of(schedule, instances_.ranks(), rank, program_.phase);
      c.ready.resize(instances_.count(rank));
      if (class_digits_ != schedule.digits) {
        for (const auto& task : program_.tasks) c.takes_part.push_back(touches(task, device));
      }
      classes_.push_back(std::move(c));
    }
  }

  [[nodiscard]] bool touches(const Task& task, std::int64_t device) const {
    const auto held = [&](lower::BufferId b) {
      return b != Program::kNone && holds(program_.buffer(b).layout, program_.digits, device);
    };
    return std::ranges::any_of(task.reads, held) || std::ranges::any_of(task.writes, held);
  }

  // The class of the device that stands where this one does.
  [[nodiscard]] std::size_t class_of(std::int64_t device) const {
    return static_cast<std::size_t>(program_.digits.rank_in_group(device, class_digits_));
  }

  // --- Events ----------------------------------------------------------------------------------

  // Schedules a class's tasks until one that waits for another class; returns whether any.
  bool advance(std::size_t number) {
    auto& c = classes_[number];
    bool moved = false;
    for (; c.turn < c.turns.size(); ++c.turn, c.task = 0) {
      const auto& turn = c.turns[c.turn];
      const auto& tasks = program_.segment(turn.stage, turn.part).tasks;
      for (; c.task < tasks.size(); ++c.task) {
        const auto t = tasks[c.task];
        if (!c.takes_part.empty() && !c.takes_part[t]) continue;
        if (!runs_in(program_.tasks[t], turn.micro_batch, program_.digits.micro_batches()))
          continue;
        if (!schedule(number, t, turn.micro_batch)) return moved;
        moved = true;
      }
    }
    return moved;
  }

  Seconds& ready(DeviceClass& c, lower::BufferId b, std::int64_t micro_batch) const {
    return c.ready[instances_.of(b, micro_batch)];
  }

  // False if the task waits for what another class has not come to yet.
  bool schedule(std::size_t number, std::uint32_t t, std::int64_t micro_batch) {
    const Task& task = program_.tasks[t];
    auto& c = classes_[number];
    const Seconds duration = duration_[t * devices_.size() + c.group];
    const auto stream = stream_of(task);
    Seconds start;
    for (auto b : task.reads) {
      if (b != Program::kNone) start = std::max(start, ready(c, b, micro_batch));
    }
    if (duration > Seconds{}) start = std::max(start, c.stream_free[stream]);
    if (task.kind == TaskKind::kReceive) {
      const auto sent = sent_.find({task.peer, micro_batch, class_of(source_of(task, c.device))});
      if (sent == sent_.end()) return false;
      start = std::max(start, sent->second);
    }
    if (task.kind == TaskKind::kMove && (task.step.digits & class_digits_) != 0) {
      const auto together = meet(number, t, micro_batch, start);
      if (!together) return false;
      start = *together;
    }
    Seconds end = start;
    if (duration > Seconds{}) {
      end = start + duration;
      c.stream_free[stream] = end;
      out_.timeline.push_back({t, static_cast<std::uint32_t>(micro_batch),
                               static_cast<std::uint32_t>(number),
                               static_cast<std::uint32_t>(stream), start, end});
    }
    // A receiver takes in while the sender sends.
    if (task.kind == TaskKind::kSend) sent_[{t, micro_batch, number}] = start;
    for (auto b : task.writes) {
      auto& at = ready(c, b, micro_batch);
      at = std::max(at, end);
    }
    out_.iteration = std::max(out_.iteration, end);
    return true;
  }

  [[nodiscard]] std::int64_t source_of(const Task& receive, std::int64_t device) const {
    const auto group = program_.digits.group(device, receive.step.digits);
    return group[static_cast<std::size_t>(root_of(receive.step, program_.digits))];
  }

  // When all classes of a collective are there; nothing while some are not.
  std::optional<Seconds> meet(std::size_t number, std::uint32_t t, std::int64_t micro_batch,
                              Seconds start) {
    const auto digits = program_.tasks[t].step.digits & class_digits_;
    const auto group = program_.digits.group(classes_[number].device, digits);
    auto& meeting = meetings_[{t, micro_batch, class_of(group[0])}];
    if (meeting.there.insert(number).second) meeting.start = std::max(meeting.start, start);
    const auto expected = std::ranges::count_if(group, [&](std::int64_t device) {
      const auto& takes_part = classes_[class_of(device)].takes_part;
      return takes_part.empty() || takes_part[t];
    });
    if (static_cast<std::ptrdiff_t>(meeting.there.size()) < expected) return std::nullopt;
    return meeting.start;
  }

  [[nodiscard]] std::size_t stream_of(const Task& task) const {
    const auto level = [&] { return cost::outermost_level(program_.digits, task.step.digits); };
    switch (task.kind) {
      case TaskKind::kMove:
        return is_local(task.step.kind) ? kComputeStream : 1 + level();
      case TaskKind::kSend:
        return 1 + levels_ + level();
      case TaskKind::kReceive:
        return 1 + 2 * levels_ + level();
      default:
        return kComputeStream;
    }
  }

  [[nodiscard]] std::string kind_of(const Task& task) const {
    if (task.kind == TaskKind::kSend || task.kind == TaskKind::kReceive) return "send_recv";
    if (task.kind == TaskKind::kMove) return std::string(machine::name(task.step.kind));
    return program_.pcg.node(task.node).op.name() == "embedding_bag" ? "embedding" : "compute";
  }

  // --- Durations -------------------------------------------------------------------------------

  // One for the devices of each group.
  void add_durations(const Task& task) {
    switch (task.kind) {
      case TaskKind::kForward:
      case TaskKind::kBackward:
        return add_work(operator_work(task), program_.pcg.node(task.node).type.dtype);
      case TaskKind::kMove:
      case TaskKind::kSend:
      case TaskKind::kReceive:
        return add_for_all(is_halo(task.step.kind)
                               ? halo_time(task)
                               : cost::collective_time(machine_, program_.digits, task.step.kind,
                                                       task.step.digits,
                                                       moved_bytes(program_, task)));
      case TaskKind::kSeed:
        return add_for_all(Seconds{});
      case TaskKind::kAccumulate:
      case TaskKind::kCollect:
        return add_work(streaming_work(task), program_.buffer(task.writes[0]).dtype);
      case TaskKind::kUpdate:
        return add_work(update_work(task), program_.buffer(task.reads[0]).dtype);
    }
    CHECK(false);
  }

  void add_for_all(Seconds time) { duration_.insert(duration_.end(), devices_.size(), time); }

  void add_work(const cost::Work& work, DType dtype) {
    for (const auto* device : devices_) duration_.push_back(cost::task_time(*device, work, dtype));
  }

  cost::Work operator_work(const Task& task) {
    if (!task.remade) {
      out_.model_flops +=
          work_of(task, [](const ParallelShape& s) { return ParallelShape(s.sizes); }).flops;
    }
    return work_of(task, [](const ParallelShape& s) { return s; });
  }

  // Of the task on operands of the types that `part` makes of them.
  template <class Part>
  cost::Work work_of(const Task& task, Part&& part) const {
    const auto type_of = [&](NodeId id) {
      const auto& type = program_.pcg.node(id).type;
      return TensorType{part(type.shape), type.dtype, type.density};
    };
    std::vector<TensorType> inputs;
    for (auto i : program_.pcg.inputs(task.node)) inputs.push_back(type_of(i));
    const auto& op = program_.pcg.node(task.node).op;
    return task.kind == TaskKind::kForward
               ? cost::forward_work(op, inputs, type_of(task.node))
               : cost::backward_work(op, inputs, type_of(task.node), task.operands.size());
  }

  Seconds halo_time(const Task& task) const {
    return cost::halo_time(machine_, program_.digits, task.step.digits, moved_bytes(program_, task),
                           halo_of(program_, task).messages);
  }

  // Reads and writes its buffers once.
  cost::Work streaming_work(const Task& task) const {
    cost::Work work;
    for (auto b : task.reads) work.bytes += program_.buffer(b).bytes();
    for (auto b : task.writes) work.bytes += program_.buffer(b).bytes();
    return work;
  }

  cost::Work update_work(const Task& task) const {
    const auto& weight = program_.buffer(task.reads[0]);
    const auto& gradient = program_.buffer(task.reads[1]);
    return {.flops = {},
            .bytes = cost::update_bytes(weight.bytes(), gradient.bytes(),
                                        plan::states(program_.optimizer))};
  }

  // --- Sums ------------------------------------------------------------------------------------

  struct Busy {
    Seconds compute;
    Seconds any;
  };

  // The spans of one class; those of a stream come in order.
  Busy busy(std::span<const Span> spans) const {
    std::vector<Span> compute;
    Busy out;
    for (const auto& span : spans) {
      if (span.stream != kComputeStream) continue;
      compute.push_back(span);
      out.compute += span.end - span.start;
    }
    out.any = covered({spans.begin(), spans.end()});
    return out;
  }

  void finish() {
    std::vector<std::vector<Span>> spans(classes_.size());
    for (const auto& span : out_.timeline) spans[span.device_class].push_back(span);
    Busy most;
    for (std::size_t c = 0; c < spans.size(); ++c) {
      const auto now = busy(spans[c]);
      if (c > 0 && now.any <= most.any) continue;
      most = now;
      out_.busiest = static_cast<std::uint32_t>(c);
    }
    for (const auto& span : spans[out_.busiest]) {
      out_.serialized[kind_of(program_.tasks[span.task])] += span.end - span.start;
    }
    out_.compute = most.compute;
    out_.exposed_comm = most.any - most.compute;
    out_.bubble = out_.iteration - most.any;
    out_.group_memory = memory_by_group(program_, machine_);
    for (const auto& memory : out_.group_memory) {
      if (memory.peak < out_.memory) continue;
      out_.memory = memory.peak;
      out_.persistent = memory.persistent;
    }
    const auto dtype = program_.pcg.node(program_.pcg.outputs()[0]).type.dtype;
    const Seconds at_peak = out_.model_flops / all_peaks(dtype);
    out_.mfu = out_.iteration > Seconds{} ? at_peak / out_.iteration : 0;
  }

  // Of all devices together.
  [[nodiscard]] FlopsPerSecond all_peaks(DType dtype) const {
    if (machine_.groups.empty()) {
      return cost::peak_of(machine_.device, dtype) * static_cast<double>(machine_.devices());
    }
    FlopsPerSecond out;
    for (const auto& group : machine_.groups) {
      out += cost::peak_of(group.device, dtype) *
             static_cast<double>(group.units * machine_.devices_below(0));
    }
    return out;
  }

  // The time that at least one of the spans covers.
  static Seconds covered(std::vector<Span> spans) {
    std::ranges::sort(spans, {}, &Span::start);
    Seconds total;
    Seconds end;
    for (const auto& span : spans) {
      if (span.end <= end) continue;
      total += span.end - std::max(span.start, end);
      end = span.end;
    }
    return total;
  }

  const Program& program_;
  const machine::Machine& machine_;
  std::size_t levels_;
  lower::Instances instances_;
  std::vector<const machine::Device*> devices_;  // by group; one where all are equal
  std::vector<Seconds> duration_;                // by task and group
  machine::DigitMask class_digits_ = 0;
  std::vector<DeviceClass> classes_;

  // By task, micro-batch, class.
  using Event = std::tuple<std::size_t, std::int64_t, std::size_t>;
  struct Meeting {
    std::set<std::size_t> there;
    Seconds start;
  };
  std::map<Event, Seconds> sent_;
  std::map<Event, Meeting> meetings_;
  Simulation out_;
};

}  // namespace

Simulation simulate(const Program& program, const machine::Machine& machine) {
  return Simulator(program, machine).run();
}

}  // namespace tandem::sim
