#include "lower/program.h"

#include <fmt/format.h>

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
    case TaskKind::kAccumulate:
      return "accumulate";
    case TaskKind::kUpdate:
      return "update";
  }
  CHECK(false);
}

// The largest buffer that a device has in a move: what collective costs are stated in.
const Buffer& larger(const Program& p, const Task& task) {
  const auto& from = p.buffer(task.reads[0]);
  const auto& to = p.buffer(task.writes[0]);
  return from.shard.count() >= to.shard.count() ? from : to;
}

}  // namespace

Bytes moved_bytes(const Program& program, const Task& task) {
  CHECK(task.kind == TaskKind::kMove);
  return larger(program, task).bytes();
}

double elements_communicated(const Program& program) {
  double total = 0;
  for (const auto& task : program.tasks) {
    if (task.kind != TaskKind::kMove) continue;
    const auto& buffer = larger(program, task);
    const auto sent =
        cost::bytes_sent(program.digits, task.step.kind, task.step.digits, buffer.bytes());
    // Devices outside the idle digits take part, those inside only at 0.
    const auto idle = task.step.before.digits(machine::DigitRole::kIdle) & ~task.step.digits;
    const auto devices = program.digits.group_size(program.digits.all() & ~idle);
    total += sent / size_of(buffer.dtype) * static_cast<double>(devices);
  }
  return total;
}

std::string to_text(const Program& program) {
  std::string out;
  for (const auto& task : program.tasks) {
    const auto& node = program.pcg.node(task.node);
    if (task.kind == TaskKind::kMove) {
      const auto& moved = program.buffer(task.reads[0]);
      out += fmt::format("{} {} %{}{} {} {} -> {} ({})\n", task.backward ? "<-" : "->",
                         machine::name(task.step.kind), program.pcg.node(moved.node).name,
                         moved.kind == BufferKind::kGradient ? "'" : "",
                         tandem::to_text(moved.sizes), to_text(task.step.before),
                         to_text(task.step.after), bytes_text(moved_bytes(program, task).value));
    } else {
      out += fmt::format("{} {} {} %{}\n", task.backward ? "<-" : "->", name(task.kind),
                         node.op.name(), node.name);
    }
  }
  return out;
}

}  // namespace tandem::lower
