#include "predict/memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/stop.h"
#include "lower/instances.h"
#include "lower/schedule_actions.h"
#include "predict/few_micro_batches.h"
#include "predict/shard_holders.h"

namespace tandem::predict {

namespace {

using lower::BufferId;
using lower::Program;

// Memory of one device over its schedule slots.
class OneDevice {
 public:
  OneDevice(const Program& program, const lower::Instances& instances, const Holders& holders,
            std::int64_t device)
      : program_(program),
        instances_(instances),
        device_(device),
        rank_(program.digits.rank_in_group(device, program.schedule.digits)),
        steps_(lower::choose_steady_steps(program).simulated),
        actions_(list_actions(program, instances.micro_batches(), rank_, steps_)),
        cached_(lower::list_kv_cache_buffers(program)),
        in_place_of_(lower::find_in_place_appends(program)) {
    const auto has = holders.find_held_kinds(device);
    has_.reserve(program.buffers.size());
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      has_.push_back(has[holders.kind(BufferId(b))]);
    }
  }

  Memory find_peak() {
    const auto change = compute_changes();
    Memory out = compute_constant_memory();
    for (auto part : out.parts) out.peak += part;
    Parts now{};
    Parts at_peak{};
    double peak = -1;
    for (std::size_t n = 0; n < change.size(); ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < now.size(); ++k) sum += now[k] += change[n][k];
      if (sum <= peak) continue;
      peak = sum;
      at_peak = now;
      out.moment = n;
    }
    for (std::size_t n = 0; n <= out.moment && n < passing_.size(); ++n) {
      out.passing += Bytes{passing_[n]};
    }
    for (std::size_t k = 0; k < at_peak.size(); ++k) out.parts[k] += Bytes{at_peak[k]};
    out.peak += Bytes{peak};
    out.saved = compute_saved_between_actions();
    out.device = device_;
    return out;
  }

  std::vector<Moment> list_moments() {
    const auto change = compute_changes();
    const auto from = compute_constant_memory().parts;
    Parts now{};
    std::vector<Moment> out;
    for_each_task([&](const lower::Task& task, const lower::Action& action, std::size_t n) {
      Moment moment{static_cast<std::uint32_t>(&task - program_.tasks.data()), action.micro_batch,
                    action.step, from};
      for (std::size_t k = 0; k < now.size(); ++k) {
        now[k] += change[n][k];
        moment.parts[k] += Bytes{now[k]};
      }
      out.push_back(moment);
    });
    return out;
  }

  std::vector<HeldBuffer> list_held(std::size_t moment) {
    std::vector<HeldBuffer> out;
    for_each_lifetime([&](BufferId b, Bytes bytes, std::size_t begin, std::size_t end) {
      if (begin <= moment && moment < end) out.push_back({b, bytes});
    });
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (has_[b] && program_.buffers[b].reserved) out.push_back({BufferId(b), own_bytes(b)});
    }
    return out;
  }

 private:
  static constexpr std::size_t kBegun = static_cast<std::size_t>(-1);
  using Parts = std::array<double, std::tuple_size_v<decltype(Memory::parts)>>;  // bytes

  [[nodiscard]] Bytes own_bytes(std::size_t buffer) const {
    return program_.buffers[buffer].bytes() - program_.buffers[buffer].shared;
  }

  // Returns the bytes that are persistent or reserved for the whole step.
  [[nodiscard]] Memory compute_constant_memory() const {
    Memory out;
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!has_[b]) continue;
      const auto& buffer = program_.buffers[b];
      auto& part = out.parts[static_cast<std::size_t>(buffer.kind)];
      if (buffer.is_persistent()) {
        const auto bytes = static_cast<double>(program_.versions(BufferId(b))) * buffer.bytes();
        out.persistent += bytes;
        part += bytes;
      }
      if (buffer.reserved) part += own_bytes(b);
    }
    for (auto b : cached_) {
      if (!has_[b.index()]) continue;
      const auto times = program_.buffer(b).each ? instances_.micro_batches() : 1;
      out.cache += static_cast<double>(times) * program_.buffer(b).bytes();
    }
    return out;
  }

  // Returns, by moment, the change in bytes since the moment before.
  std::vector<Parts> compute_changes() {
    std::vector<Parts> out;
    passing_.clear();
    for_each_lifetime([&](BufferId b, Bytes bytes, std::size_t begin, std::size_t end) {
      const auto kind = program_.buffer(b).kind;
      if (out.size() <= end) out.resize(end + 1);
      out[begin][static_cast<std::size_t>(kind)] += bytes.value;
      out[end][static_cast<std::size_t>(kind)] -= bytes.value;
      if (passing_.size() <= end) passing_.resize(end + 1);
      if (program_.buffer(b).each || program_.digits.time() == 0) {
        passing_[begin] += bytes.value;
        passing_[end] -= bytes.value;
      }
      if (kind == lower::BufferKind::kActivation) add_saved(begin, end - 1, bytes.value);
    });
    if (out.size() <= moments_) out.resize(moments_ + 1);
    return out;
  }

  // Returns the instance of buffer `b`. Each step has its own instances, because the next step
  // overwrites what a step leaves in a buffer.
  [[nodiscard]] std::size_t get_instance(BufferId b, std::int64_t micro_batch,
                                         std::int64_t step) const {
    return instances_.get_index(b, micro_batch, step) +
           instances_.count(rank_) * static_cast<std::size_t>(step);
  }

  // Calls visit(task, slot, moment) in the order of the schedule slots.
  template <class Visit>
  void for_each_task(Visit&& visit) const {
    std::size_t now = 0;
    for (const auto& action : actions_) {
      for (auto t : program_.segment(action.stage, action.phase).tasks) {
        const auto& task = program_.tasks[t];
        if (runs_in(task, action.micro_batch, instances_.micro_batches())) {
          visit(task, action, now++);
        }
      }
    }
  }

  // Calls visit(buffer, instance) for all buffers that a task reads, writes and saves for backward.
  template <class Visit>
  void for_each_use(const lower::Task& task, const lower::Action& action, Visit&& visit) const {
    const auto use = [&](BufferId b) {
      if (b == Program::kNone || !has_[b.index()]) return;
      visit(b, get_instance(b, action.micro_batch, action.step));
    };
    std::ranges::for_each(task.reads, use);
    std::ranges::for_each(task.writes, use);
    use(task.saved);
  }

  // Calls visit(buffer, bytes, begin, end) for all buffers that do not live all the time and for
  // the rows that hold the gradients of buckets. They live during the moments [begin, end).
  template <class Visit>
  void for_each_lifetime(Visit&& visit) {
    find_last_uses();
    for (auto b : cached_) add_cache_lifetime(b, visit);
    const auto begin = [&](BufferId b, std::size_t instance, std::size_t now) {
      const auto& buffer = program_.buffer(b);
      if (!buffer.is_persistent() && !buffer.reserved) {
        visit(b, own_bytes(b.index()), now, last_[instance]);
      }
      last_[instance] = kBegun;
    };
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      const auto& buffer = program_.buffers[b];
      // An input that is fed once is there from the start.
      const bool fed = buffer.kind == lower::BufferKind::kInput && !buffer.each;
      if (!has_[b] || !fed) continue;
      const auto instance = get_instance(BufferId(b), 0, 0);
      const bool used = last_[instance] != 0 && last_[instance] != kBegun;
      if (used) begin(BufferId(b), instance, 0);
    }
    for_each_task([&](const lower::Task& task, const lower::Action& action, std::size_t now) {
      for_each_use(task, action, [&](BufferId b, std::size_t instance) {
        if (last_[instance] != kBegun) begin(b, instance, now);
      });
      const auto row = count_bucket_bytes(program_, task);
      if (row > Bytes{} && has_[task.reads[0].index()]) visit(task.reads[0], row, now, now + 1);
    });
  }

  void find_last_uses() {
    last_.assign(instances_.count(rank_) * static_cast<std::size_t>(steps_), 0);
    action_of_.clear();
    saved_.assign(actions_.size(), 0);
    moments_ = 0;
    for_each_task([&](const lower::Task& task, const lower::Action& action, std::size_t now) {
      for_each_use(task, action,
                   [&](BufferId, std::size_t instance) { last_[instance] = now + 1; });
      action_of_.push_back(static_cast<std::uint32_t>(&action - actions_.data()));
      moments_ = now + 1;
    });
  }

  // Adds the lifetimes of a cache, which lives to the end of the step. If it takes the place of the
  // input that it is appended to, it lives from the start.
  template <class Visit>
  void add_cache_lifetime(BufferId b, Visit&& visit) {
    if (!has_[b.index()]) return;
    const auto before = in_place_of_[b.index()];
    const auto times = program_.buffer(b).each ? instances_.micro_batches() : 1;
    for (std::int64_t m = 0; m < times; ++m) {
      last_[get_instance(b, m, 0)] = moments_;
      if (before == Program::kNone) continue;
      visit(b, program_.buffer(b).bytes(), 0, moments_);
      last_[get_instance(b, m, 0)] = kBegun;
      last_[get_instance(before, m, 0)] = kBegun;
    }
  }

  // Adds a buffer that lives from task `from` to task `to`. It is alive between the slots of the
  // two tasks.
  void add_saved(std::size_t from, std::size_t to, double bytes) {
    if (action_of_[from] == action_of_[to]) return;
    saved_[action_of_[from]] += bytes;
    saved_[action_of_[to]] -= bytes;
  }

  [[nodiscard]] Bytes compute_saved_between_actions() const {
    double now = 0;
    double most = 0;
    for (const auto change : saved_) most = std::max(most, now += change);
    return Bytes{most};
  }

  const Program& program_;
  const lower::Instances& instances_;
  std::int64_t device_;
  std::vector<bool> has_;  // by buffer
  std::int64_t rank_;      // of the pipeline
  std::int64_t steps_;
  std::vector<lower::Action> actions_;
  std::vector<BufferId> cached_;
  std::vector<BufferId> in_place_of_;  // by buffer
  std::size_t moments_ = 0;
  std::vector<std::size_t>
      last_;  // by instance and step: one past its last use; kBegun once it is counted
  std::vector<std::uint32_t> action_of_;  // by executed task
  std::vector<double> passing_;           // like changes(), for buffers of single micro-batches
  std::vector<double> saved_;             // by slot: change of bytes that are alive after it
};

// Returns the memory of the fullest device of each group. Devices with equal coordinates in
// `digits` and with equal work belong to one group.
template <class GroupOf>
std::vector<Memory> find_fullest(const Program& program, machine::DigitMask digits,
                                 std::size_t groups, std::int64_t micro_batches,
                                 GroupOf&& group_of) {
  const lower::Instances instances(program, micro_batches);
  const Holders holders(program);
  std::vector<Memory> out(groups);
  std::vector<std::set<std::pair<std::int64_t, std::vector<bool>>>> seen(groups);
  for (const auto device : program.digits.group(0, find_class_digits(program) | digits)) {
    throw_if_stopped();
    const auto group = static_cast<std::size_t>(group_of(device));
    // Devices of one rank that hold shards of the same buffers need the same memory.
    const auto rank = program.digits.rank_in_group(device, program.schedule.digits);
    if (!seen[group].emplace(rank, holders.find_held_kinds(device)).second) continue;
    const auto memory = OneDevice(program, instances, holders, device).find_peak();
    auto& most = out[group];
    if (memory.peak > most.peak) most = memory;
  }
  return out;
}

}  // namespace

Memory add_fragmentation(Memory memory, const machine::Device& device) {
  memory.unused = device.software.fragmentation * memory.passing;
  memory.peak += memory.unused;
  return memory;
}

Memory compute_memory(const Program& program, std::int64_t device) {
  return OneDevice(program, lower::Instances(program), Holders(program), device).find_peak();
}

std::vector<Moment> compute_memory_over_time(const Program& program, std::int64_t device) {
  return OneDevice(program, lower::Instances(program), Holders(program), device).list_moments();
}

std::vector<HeldBuffer> list_held_buffers(const Program& program, std::int64_t device,
                                          std::size_t moment) {
  return OneDevice(program, lower::Instances(program), Holders(program), device).list_held(moment);
}

Memory compute_memory(const Program& program) {
  return find_fullest(program, 0, 1, program.digits.micro_batches(), [](std::int64_t) { return 0; })
      .front();
}

std::vector<Memory> compute_memory_by_group(const Program& program, const machine::Machine& machine,
                                            std::int64_t micro_batches) {
  auto out = find_fullest(program, find_group_digits(machine, program.digits),
                          std::max<std::size_t>(1, machine.groups.size()), micro_batches,
                          [&](std::int64_t device) { return machine.find_group(device); });
  for (auto& memory : out) memory = add_fragmentation(memory, machine.get_device(memory.device));
  return out;
}

std::vector<Memory> compute_memory_by_rank(const Program& program,
                                           const machine::Machine& machine) {
  const auto ranks = program.schedule.digits;
  const auto few = find_few_micro_batches(program);
  auto out = find_fullest(
      program, ranks, static_cast<std::size_t>(program.digits.group_size(ranks)),
      few ? few->more : program.digits.micro_batches(),
      [&](std::int64_t device) { return program.digits.rank_in_group(device, ranks); });
  for (auto& memory : out) memory = add_fragmentation(memory, machine.get_device(memory.device));
  return out;
}

}  // namespace tandem::predict
