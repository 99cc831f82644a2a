#include "report/hot_spots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "predict/breakdown.h"
#include "report/plan_text.h"
#include "report/tensor_names.h"

namespace tandem::report {

using lower::Program;
using lower::TaskKind;

std::string NodeGroup::text() const {
  return count > 1 ? fmt::format("{} x{}", name, count) : name;
}

namespace {

// Adds a node to the group. The group keeps the name of a single member and folds that of several.
void add_member(NodeGroup& group, const std::string& name) {
  group.name = ++group.count == 1 ? name : fold_name(name);
}

std::string work_kind(const Program& program, const lower::Task& task) {
  switch (task.kind) {
    case TaskKind::kUpdate:
      return "weight update";
    case TaskKind::kAddGradients:
    case TaskKind::kAccumulateGradient:
      return "gradient sum";
    default:
      return program.pcg.node(task.node).op.name();
  }
}

Seconds& get_pass_sum(OperatorTime& time, const lower::Task& task) {
  if (task.kind == TaskKind::kUpdate) return time.update;
  if (task.recomputed) return time.recompute;
  return task.backward ? time.backward : time.forward;
}

std::vector<OperatorTime> compute_times(const Program& program, const std::vector<TaskTime>& times,
                                        bool by_node) {
  std::vector<OperatorTime> out;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  std::set<std::pair<std::size_t, graph::NodeId>> counted;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto& task = program.tasks[t];
    if (times[t].times == 0 || predict::communicates(task)) continue;
    const auto node = find_origin(program.pcg, task.node);
    const auto& name = program.pcg.node(node).name;
    const auto kind = work_kind(program, task);
    const auto key = std::pair(kind, by_node ? fold_name(name) : std::string());
    const auto at = known.try_emplace(key, out.size()).first->second;
    if (at == out.size()) {
      out.emplace_back();
      out[at].op = kind;
    }
    if (counted.insert({at, node}).second) add_member(out[at].group, name);
    get_pass_sum(out[at], task) += times[t].serialized;
  }
  std::ranges::stable_sort(out, std::greater{}, [](const auto& o) { return o.total(); });
  return out;
}

constexpr std::array<std::string_view, lower::kBufferKinds> kPartNames = {
    "inputs", "weights", "optimizer state", "activations", "gradients", "gathered weights"};

// Collects tensors into groups of the same folded name and part.
class TensorGroups {
 public:
  explicit TensorGroups(const Program& program) : program_(program) {}

  void add(lower::BufferId id, Bytes bytes) {
    const auto name = buffer_name(program_, id);
    const auto part = kPartNames[static_cast<std::size_t>(program_.buffer(id).kind)];
    const auto [at, fresh] =
        known_.try_emplace({std::string(part), fold_name(name)}, groups_.size());
    if (fresh) {
      groups_.emplace_back();
      groups_.back().part = part;
    }
    auto& group = groups_[at->second];
    // The tensors of several micro-batches have the same name, which is not folded.
    if (group.group.count > 0 && group.group.name == name) {
      ++group.group.count;
    } else {
      add_member(group.group, name);
    }
    group.bytes += bytes;
  }

  std::vector<TensorGroup> take() {
    std::ranges::stable_sort(groups_, std::greater{}, &TensorGroup::bytes);
    return std::move(groups_);
  }

 private:
  const Program& program_;
  std::vector<TensorGroup> groups_;
  std::map<std::pair<std::string, std::string>, std::size_t> known_;
};

}  // namespace

std::vector<OperatorTime> sum_times_by_node(const Program& program,
                                            const std::vector<TaskTime>& times) {
  return compute_times(program, times, true);
}

std::vector<OperatorTime> sum_times_by_operator(const Program& program,
                                                const std::vector<TaskTime>& times) {
  return compute_times(program, times, false);
}

std::vector<TransferGroup> sum_transfers_by_tensor(const Program& program,
                                                   const std::vector<TaskTime>& times) {
  std::vector<TransferGroup> out;
  std::map<std::tuple<std::string, machine::DigitMask, bool>, std::size_t> known;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto& task = program.tasks[t];
    if (times[t].times == 0 || !predict::communicates(task)) continue;
    const auto name = transfer_name(program, task);
    const auto [at, fresh] =
        known.try_emplace({fold_name(name), task.step.digits, task.recomputed}, out.size());
    if (fresh) {
      out.emplace_back();
      out.back().what = name + (task.recomputed ? ", repeated for backward" : "");
      out.back().kind = predict::get_task_kind(program, task);
      out.back().digits = task.step.digits;
    }
    auto& sum = out[at->second];
    if (!fresh) sum.what = fold_name(name) + (task.recomputed ? ", repeated for backward" : "");
    sum.times += times[t].times;
    sum.bytes += static_cast<double>(times[t].times) * count_moved_bytes(program, task);
    sum.serialized += times[t].serialized;
    sum.exposed += times[t].exposed;
  }
  std::ranges::stable_sort(out, std::greater{},
                           [](const auto& t) { return std::pair(t.exposed, t.serialized); });
  return out;
}

std::vector<TensorGroup> list_tensors_at_peak(const Program& program,
                                              const predict::Memory& memory) {
  TensorGroups groups(program);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const auto& buffer = program.buffers[b];
    const lower::BufferId id(b);
    if (!buffer.is_persistent() || !holds_shard(buffer.layout, program.digits, memory.device))
      continue;
    groups.add(id, static_cast<double>(program.versions(id)) * buffer.bytes());
  }
  for (const auto& held : predict::list_held_buffers(program, memory.device, memory.moment)) {
    groups.add(held.buffer, held.bytes);
  }
  return groups.take();
}

}  // namespace tandem::report
