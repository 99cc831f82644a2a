#include "sim/simulate.h"

#include <algorithm>

#include "cost/collectives.h"
#include "cost/operator_time.h"
#include "sim/memory.h"

namespace tandem::sim {

namespace {

using graph::NodeId;
using lower::Program;
using lower::Task;
using lower::TaskKind;

constexpr std::size_t kComputeStream = 0;

class Simulator {
 public:
  Simulator(const Program& program, const machine::Machine& machine)
      : program_(program),
        machine_(machine),
        stream_free_(1 + machine.levels.size()),
        ready_(program.buffers.size()) {}

  Simulation run() {
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) schedule(t);
    finish();
    return std::move(out_);
  }

 private:
  void schedule(std::size_t t) {
    const Task& task = program_.tasks[t];
    Seconds start;
    for (auto b : task.reads) {
      if (b != Program::kNone) start = std::max(start, ready_[b.index()]);
    }
    const Seconds duration = duration_of(task);
    Seconds end = start;
    if (duration > Seconds{}) {
      const auto stream = stream_of(task);
      start = std::max(start, stream_free_[stream]);
      end = start + duration;
      stream_free_[stream] = end;
      out_.timeline.push_back({t, stream, start, end});
      out_.serialized[kind_of(task)] += duration;
    }
    for (auto b : task.writes) ready_[b.index()] = end;
    out_.iteration = std::max(out_.iteration, end);
  }

  [[nodiscard]] std::size_t stream_of(const Task& task) const {
    if (task.kind != TaskKind::kMove) return kComputeStream;
    return 1 + cost::outermost_level(program_.digits, task.step.digits);
  }

  [[nodiscard]] std::string kind_of(const Task& task) const {
    if (task.kind == TaskKind::kMove) return std::string(machine::name(task.step.kind));
    return program_.pcg.node(task.node).op.name() == "embedding_bag" ? "embedding" : "compute";
  }

  Seconds duration_of(const Task& task) {
    switch (task.kind) {
      case TaskKind::kForward:
      case TaskKind::kBackward:
        return operator_time(task);
      case TaskKind::kMove:
        return cost::collective_time(machine_, program_.digits, task.step.kind, task.step.digits,
                                     moved_bytes(program_, task));
      case TaskKind::kSeed:
        return Seconds{};
      case TaskKind::kAccumulate:
        return streaming_time(task);
      case TaskKind::kUpdate:
        return update_time(task);
    }
    CHECK(false);
  }

  Seconds operator_time(const Task& task) {
    const auto& node = program_.pcg.node(task.node);
    out_.model_flops +=
        work_of(task, [](const ParallelShape& s) { return ParallelShape(s.sizes); }).flops;
    const auto work = work_of(task, [](const ParallelShape& s) { return s; });
    return cost::task_time(machine_.device, work, node.type.dtype);
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

  // Reads and writes its buffers once.
  Seconds streaming_time(const Task& task) const {
    cost::Work work;
    for (auto b : task.reads) work.bytes += program_.buffer(b).bytes();
    for (auto b : task.writes) work.bytes += program_.buffer(b).bytes();
    return cost::task_time(machine_.device, work, program_.buffer(task.writes[0]).dtype);
  }

  Seconds update_time(const Task& task) const {
    const auto& weight = program_.buffer(task.reads[0]);
    const auto& gradient = program_.buffer(task.reads[1]);
    const auto bytes =
        cost::update_bytes(weight.bytes(), gradient.bytes(), plan::states(program_.optimizer));
    return cost::task_time(machine_.device, {.flops = {}, .bytes = bytes}, weight.dtype);
  }

  void finish() {
    std::vector<Span> compute;
    std::vector<Span> all = out_.timeline;
    for (const auto& span : out_.timeline) {
      if (span.stream != kComputeStream) continue;
      compute.push_back(span);
      out_.compute += span.end - span.start;
    }
    out_.exposed_comm = covered(all) - covered(compute);
    out_.bubble = out_.iteration - covered(all);
    const auto memory = memory_of(program_);
    out_.memory = memory.peak;
    out_.persistent = memory.persistent;
    const auto dtype = program_.pcg.node(program_.pcg.outputs()[0]).type.dtype;
    const Seconds at_peak = out_.model_flops / cost::peak_of(machine_.device, dtype) /
                            static_cast<double>(program_.digits.devices());
    out_.mfu = out_.iteration > Seconds{} ? at_peak / out_.iteration : 0;
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
  std::vector<Seconds> stream_free_;
  std::vector<Seconds> ready_;
  Simulation out_;
};

}  // namespace

Simulation simulate(const Program& program, const machine::Machine& machine) {
  return Simulator(program, machine).run();
}

}  // namespace tandem::sim
