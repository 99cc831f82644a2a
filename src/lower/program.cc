#include "lower/program.h"

#include <fmt/format.h>

#include <array>

#include "base/text.h"
#include "cost/collectives.h"

namespace tandem::lower {

namespace {

std::string_view name(TaskKind kind) {
  switch (kind) {
    case TaskKind::kForward:
      return "forward";
    case TaskKind::kSeed:
      return "seed";
    case TaskKind::kBackward:
      return "backward";
    case TaskKind::kMove:
      return "move";
    case TaskKind::kSend:
      return "send";
    case TaskKind::kReceive:
      return "receive";
    case TaskKind::kAccumulate:
      return "accumulate";
    case TaskKind::kCollect:
      return "collect";
    case TaskKind::kUpdate:
      return "update";
  }
  CHECK(false);
}

// The largest buffer that a device has in a move: what collective costs are stated in.
const Buffer& larger(const Program& p, const Task& task) {
  if (task.kind == TaskKind::kSend) return p.buffer(task.reads[0]);
  if (task.kind == TaskKind::kReceive) return p.buffer(task.writes[0]);
  const auto& from = p.buffer(task.reads[0]);
  const auto& to = p.buffer(task.writes[0]);
  return from.shard.count() >= to.shard.count() ? from : to;
}

}  // namespace

Bytes moved_bytes(const Program& program, const Task& task) {
  CHECK(task.kind == TaskKind::kMove || task.kind == TaskKind::kSend ||
        task.kind == TaskKind::kReceive);
  return larger(program, task).bytes();
}

double elements_communicated(const Program& program) {
  double total = 0;
  for (const auto& task : program.tasks) {
    if (task.kind != TaskKind::kMove && task.kind != TaskKind::kSend) continue;
    const auto& buffer = larger(program, task);
    const auto times = task.when == When::kEach ? program.digits.micro_batches() : 1;
    const auto sent =
        cost::bytes_sent(program.digits, task.step.kind, task.step.digits, buffer.bytes());
    // Of digits that stay idle only one place takes part.
    const auto idle = task.step.before.idle() & ~task.step.digits;
    const auto devices = program.digits.group_size(program.digits.space() & ~idle);
    total += sent / size_of(buffer.dtype) * static_cast<double>(devices * times);
  }
  return total;
}

std::string to_text(const Program& program) {
  std::string out;
  for (const auto& task : program.tasks) {
    const auto& node = program.pcg.node(task.node);
    if (program.schedule.stages > 1) out += fmt::format("{:>2} ", task.stage);
    if (program.digits.time() != 0) {
      constexpr std::array kWhen = {"each ", "first", "last "};
      out += fmt::format("{} ", kWhen[static_cast<std::size_t>(task.when)]);
    }
    if (task.kind == TaskKind::kMove || task.kind == TaskKind::kSend) {
      const auto& moved = program.buffer(task.reads[0]);
      out += fmt::format("{} {} %{}{} {} {} -> {} ({})\n", task.backward ? "<-" : "->",
                         machine::name(task.step.kind), program.pcg.node(moved.node).name,
                         moved.kind == BufferKind::kGradient ? "'" : "",
                         tandem::to_text(moved.sizes), to_text(task.step.before),
                         to_text(task.step.after), bytes_text(moved_bytes(program, task).value));
    } else {
      out += fmt::format("{} {} {} %{}{}\n", task.backward ? "<-" : "->", name(task.kind),
                         node.op.name(), node.name, task.remade ? " (again)" : "");
    }
  }
  return out;
}

}  // namespace tandem::lower
