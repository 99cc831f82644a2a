#include "lower/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "ops/registry.h"

namespace tandem::lower {

namespace {

std::string_view name(TaskKind kind) {
  switch (kind) {
    case TaskKind::kForward:
      return "forward";
    case TaskKind::kLossGradient:
      return "seed";
    case TaskKind::kBackward:
      return "backward";
    case TaskKind::kMove:
      return "move";
    case TaskKind::kSend:
      return "send";
    case TaskKind::kReceive:
      return "receive";
    case TaskKind::kJoin:
      return "join";
    case TaskKind::kAddGradients:
      return "accumulate";
    case TaskKind::kAccumulateGradient:
      return "collect";
    case TaskKind::kUpdate:
      return "update";
  }
  CHECK(false);
}

// Returns the largest buffer that a device has in a move, by which collective costs are defined.
const Buffer& get_larger_buffer(const Program& p, const Task& task, std::size_t which) {
  if (task.kind == TaskKind::kSend) return p.buffer(task.reads[0]);
  if (task.kind == TaskKind::kReceive) return p.buffer(task.writes[0]);
  const auto& from = p.buffer(task.reads[which]);
  const auto& to = p.buffer(task.writes[which]);
  return from.shard.count() >= to.shard.count() ? from : to;
}

// Returns the number of buffers in a move, send or receive.
std::size_t count_moved_buffers(const Task& task) {
  return std::max(task.reads.size(), task.writes.size());
}

bool moves_halo(const Task& task) {
  return task.kind == TaskKind::kMove && is_halo(task.step.kind);
}

// Returns the windowed one of a halo move's two buffers.
const Buffer& get_windowed_buffer(const Program& p, const Task& task) {
  return p.buffer(task.step.kind == machine::Step::kHalo ? task.writes[0] : task.reads[0]);
}

// Returns the number of elements that the devices of one group together send in a move or send.
double count_elements_sent(const Program& program, const Task& task) {
  if (moves_halo(task)) return static_cast<double>(compute_halo(program, task).together);
  const auto sent = machine::compute_bytes_sent(program.digits, task.step.kind, task.step.digits,
                                                count_moved_bytes(program, task));
  return sent / get_element_size(get_larger_buffer(program, task, 0).dtype) *
         static_cast<double>(program.digits.group_size(task.step.digits));
}

// Returns " (own block)" or, for the block of the device two positions ahead, " (block +2)".
std::string format_block(const Buffer& part) {
  return part.turned == 0 ? " (own block)" : fmt::format(" (block +{})", part.turned);
}

}  // namespace

bool comes_from_weight(const graph::Graph& pcg, graph::NodeId id) {
  while (is_parallel(pcg.node(id))) id = pcg.inputs(id)[0];
  return is_weight(pcg.node(id));
}

std::vector<const Task*> find_only_readers(const Program& program) {
  std::vector<const Task*> out(program.buffers.size());
  std::vector<bool> read(program.buffers.size());
  for (const auto& task : program.tasks) {
    for (auto b : task.reads) {
      if (b == Program::kNone) continue;
      out[b.index()] = read[b.index()] ? nullptr : &task;
      read[b.index()] = true;
    }
  }
  return out;
}

std::vector<BufferId> list_kv_cache_buffers(const Program& program) {
  std::vector<BufferId> out;
  if (program.mode != Mode::kInference) return out;
  const auto& outputs = program.pcg.outputs();
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    out.push_back(program.tensor[outputs[i].index()]);
  }
  return out;
}

std::vector<BufferId> find_in_place_appends(const Program& program) {
  std::vector<BufferId> out(program.buffers.size(), Program::kNone);
  if (program.mode != Mode::kInference) return out;
  for (const auto& task : program.tasks) {
    const bool appends =
        task.kind == TaskKind::kForward && program.pcg.node(task.node).op.is(ops::kAppend);
    if (appends && program.buffer(task.reads[0]).kind == BufferKind::kInput) {
      out[task.writes[0].index()] = task.reads[0];
    }
  }
  return out;
}

machine::DigitMask find_class_digits(const Program& program) {
  auto out = program.schedule.digits;
  for (const auto& buffer : program.buffers) {
    for (std::size_t i = 0; i < program.digits.count(); ++i) {
      const auto role = buffer.layout[i];
      if (role.is_idle() && role.place() != 0) out |= machine::DigitMask{1} << i;
    }
  }
  return out;
}

machine::IndexRange compute_range(const Buffer& buffer, const machine::Digits& digits,
                                  std::int64_t slot, std::size_t dim) {
  if (buffer.turned != 0) {
    const auto group = digits.group(slot, buffer.ring);
    const auto rank = digits.rank_in_group(slot, buffer.ring) + buffer.turned;
    slot = group[static_cast<std::size_t>(rank) % group.size()];
  }
  if (buffer.windows.empty()) {
    return machine::compute_range(buffer.layout, digits, slot, dim, buffer.sizes[dim]);
  }
  const auto mask = buffer.layout.digits(machine::DigitRole::dim(dim));
  return machine::compute_range(buffer.windows[dim], digits.rank_in_group(slot, mask),
                                buffer.sizes[dim]);
}

machine::Halo compute_halo(const Program& program, const Task& task) {
  const auto& buffer = get_windowed_buffer(program, task);
  return machine::compute_halo(buffer.windows, buffer.layout, buffer.sizes, program.digits);
}

machine::ReshardStep compute_reshard_step(const Program& program, const Task& task,
                                          std::size_t which) {
  if (which == 0) return task.step;
  const auto steps = machine::reshard(program.buffer(task.reads[which]).layout,
                                      program.buffer(task.writes[which]).layout);
  CHECK(steps.size() == 1 && steps[0].kind == task.step.kind &&
        steps[0].digits == task.step.digits);
  return steps[0];
}

Bytes count_moved_bytes(const Program& program, const Task& task, std::size_t which) {
  CHECK(task.kind == TaskKind::kMove || task.kind == TaskKind::kSend ||
        task.kind == TaskKind::kReceive);
  if (moves_halo(task)) {
    return static_cast<double>(compute_halo(program, task).most) *
           get_element_size(get_windowed_buffer(program, task).dtype);
  }
  const auto& buffer = get_larger_buffer(program, task, which);
  const bool narrow = program.software.narrow_exchange && buffer.dtype == DType::kFp32 &&
                      task.step.kind == machine::Step::kAllToAll;
  return narrow ? get_element_size(DType::kBf16) / get_element_size(buffer.dtype) * buffer.bytes()
                : buffer.bytes();
}

Bytes count_moved_bytes(const Program& program, const Task& task) {
  Bytes total;
  for (std::size_t i = 0; i < count_moved_buffers(task); ++i)
    total += count_moved_bytes(program, task, i);
  return total;
}

Bytes count_bucket_bytes(const Program& program, const Task& task) {
  const bool copies = task.kind == TaskKind::kMove && task.reads.size() > 1 &&
                      task.step.kind == machine::Step::kReduceScatter;
  return copies ? count_moved_bytes(program, task) : Bytes{};
}

double count_communicated_elements(const Program& program) {
  double total = 0;
  for (const auto& task : program.tasks) {
    if (task.kind != TaskKind::kMove && task.kind != TaskKind::kSend) continue;
    const auto times = task.when == When::kEach ? program.digits.micro_batches() : 1;
    // For digits that stay idle, only the devices at one place take part.
    const auto idle = task.step.before.idle() & ~task.step.digits;
    const auto groups =
        program.digits.group_size(program.digits.space() & ~idle & ~task.step.digits);
    total += count_elements_sent(program, task) * static_cast<double>(groups * times);
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
      const auto others = task.reads.size() - 1;
      out +=
          fmt::format("{} {} %{}{} {} {} -> {}{} ({})\n", task.backward ? "<-" : "->",
                      machine::name(task.step.kind), program.pcg.node(moved.node).name,
                      moved.kind == BufferKind::kGradient ? "'" : "", tandem::to_text(moved.sizes),
                      to_text(task.step.before), to_text(task.step.after),
                      others > 0 ? fmt::format(" and {} more", others) : "",
                      format_bytes(count_moved_bytes(program, task).value));
    } else {
      out += fmt::format("{} {} {} %{}{}{}\n", task.backward ? "<-" : "->", name(task.kind),
                         node.op.name(), node.name, task.recomputed ? " (again)" : "",
                         task.block ? format_block(program.buffer(task.block->part)) : "");
    }
  }
  return out;
}

}  // namespace tandem::lower
