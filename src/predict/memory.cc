#include "predict/memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/stop.h"
#include "lower/instances.h"
#include "lower/order.h"
#include "predict/few_micro_batches.h"
#include "predict/holders.h"

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
        steps_(lower::steady_steps(program).simulated),
        turns_(turns_of(program, instances.micro_batches(), rank_, steps_)),
        cached_(lower::cached(program)),
        in_place_of_(lower::cached_in_place(program)) {
    const auto has = holders.of(device);
    has_.reserve(program.buffers.size());
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      has_.push_back(has[holders.kind(BufferId(b))]);
    }
  }

  Memory peak() {
    const auto change = changes();
    Memory out = always();
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
    out.kept = kept_between_turns();
    out.device = device_;
    return out;
  }

  std::vector<Moment> moments() {
    const auto change = changes();
    const auto from = always().parts;
    Parts now{};
    std::vector<Moment> out;
    for_each_task([&](const lower::Task& task, const lower::Turn& turn, std::size_t n) {
      Moment moment{static_cast<std::uint32_t>(&task - program_.tasks.data()), turn.micro_batch,
                    turn.step, from};
      for (std::size_t k = 0; k < now.size(); ++k) {
        now[k] += change[n][k];
        moment.parts[k] += Bytes{now[k]};
      }
      out.push_back(moment);
    });
    return out;
  }

  std::vector<HeldBuffer> held(std::size_t moment) {
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
  [[nodiscard]] Memory always() const {
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
  std::vector<Parts> changes() {
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
      if (kind == lower::BufferKind::kActivation) keep(begin, end - 1, bytes.value);
    });
    if (out.size() <= moments_) out.resize(moments_ + 1);
    return out;
  }

  // Returns the instance of buffer `b`. Each step has its own instances, because the next step
  // overwrites what a step leaves in a buffer.
  [[nodiscard]] std::size_t instance_of(BufferId b, std::int64_t micro_batch,
                                        std::int64_t step) const {
    return instances_.of(b, micro_batch, step) +
           instances_.count(rank_) * static_cast<std::size_t>(step);
  }

  // Calls visit(task, slot, moment) in the order of the schedule slots.
  template <class Visit>
  void for_each_task(Visit&& visit) const {
    std::size_t now = 0;
    for (const auto& turn : turns_) {
      for (auto t : program_.segment(turn.stage, turn.part).tasks) {
        const auto& task = program_.tasks[t];
        if (runs_in(task, turn.micro_batch, instances_.micro_batches())) {
          visit(task, turn, now++);
        }
      }
    }
  }

  // Calls visit(buffer, instance) for all buffers that a task reads, writes and saves for backward.
  template <class Visit>
  void for_each_use(const lower::Task& task, const lower::Turn& turn, Visit&& visit) const {
    const auto use = [&](BufferId b) {
      if (b == Program::kNone || !has_[b.index()]) return;
      visit(b, instance_of(b, turn.micro_batch, turn.step));
    };
    std::ranges::for_each(task.reads, use);
    std::ranges::for_each(task.writes, use);
    use(task.kept);
  }

  // Calls visit(buffer, bytes, begin, end) for all buffers that do not live all the time and for
  // the rows that hold the gradients of buckets. They live during the moments [begin, end).
  template <class Visit>
  void for_each_lifetime(Visit&& visit) {
    find_last_uses();
    for (auto b : cached_) keep_to_the_end(b, visit);
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
      const auto instance = instance_of(BufferId(b), 0, 0);
      const bool used = last_[instance] != 0 && last_[instance] != kBegun;
      if (used) begin(BufferId(b), instance, 0);
    }
    for_each_task([&](const lower::Task& task, const lower::Turn& turn, std::size_t now) {
      for_each_use(task, turn, [&](BufferId b, std::size_t instance) {
        if (last_[instance] != kBegun) begin(b, instance, now);
      });
      const auto row = bucket_bytes(program_, task);
      if (row > Bytes{} && has_[task.reads[0].index()]) visit(task.reads[0], row, now, now + 1);
    });
  }

  void find_last_uses() {
    last_.assign(instances_.count(rank_) * static_cast<std::size_t>(steps_), 0);
    turn_of_.clear();
    kept_.assign(turns_.size(), 0);
    moments_ = 0;
    for_each_task([&](const lower::Task& task, const lower::Turn& turn, std::size_t now) {
      for_each_use(task, turn, [&](BufferId, std::size_t instance) { last_[instance] = now + 1; });
      turn_of_.push_back(static_cast<std::uint32_t>(&turn - turns_.data()));
      moments_ = now + 1;
    });
  }

  // Adds the lifetimes of a cache, which lives to the end of the step. If it takes the place of the
  // input that it is appended to, it lives from the start.
  template <class Visit>
  void keep_to_the_end(BufferId b, Visit&& visit) {
    if (!has_[b.index()]) return;
    const auto before = in_place_of_[b.index()];
    const auto times = program_.buffer(b).each ? instances_.micro_batches() : 1;
    for (std::int64_t m = 0; m < times; ++m) {
      last_[instance_of(b, m, 0)] = moments_;
      if (before == Program::kNone) continue;
      visit(b, program_.buffer(b).bytes(), 0, moments_);
      last_[instance_of(b, m, 0)] = kBegun;
      last_[instance_of(before, m, 0)] = kBegun;
    }
  }

  // Adds a buffer that lives from task `from` to task `to`. It is alive between the slots of the
  // two tasks.
  void keep(std::size_t from, std::size_t to, double bytes) {
    if (turn_of_[from] == turn_of_[to]) return;
    kept_[turn_of_[from]] += bytes;
    kept_[turn_of_[to]] -= bytes;
  }

  [[nodiscard]] Bytes kept_between_turns() const {
    double now = 0;
    double most = 0;
    for (const auto change : kept_) most = std::max(most, now += change);
    return Bytes{most};
  }

  const Program& program_;
  const lower::Instances& instances_;
  std::int64_t device_;
  std::vector<bool> has_;  // by buffer
  std::int64_t rank_;      // of the pipeline
  std::int64_t steps_;
  std::vector<lower::Turn> turns_;
  std::vector<BufferId> cached_;
  std::vector<BufferId> in_place_of_;  // by buffer
  std::size_t moments_ = 0;
  std::vector<std::size_t>
      last_;  // by instance and step: one past its last use; kBegun once it is counted
  std::vector<std::uint32_t> turn_of_;  // by executed task
  std::vector<double> passing_;         // like changes(), for buffers of single micro-batches
  std::vector<double> kept_;            // by slot: change of bytes that are alive after it
};

// Returns the memory of the fullest device of each group. Devices with equal coordinates in
// `digits` and with equal work belong to one group.
template <class GroupOf>
std::vector<Memory> fullest(const Program& program, machine::DigitMask digits, std::size_t groups,
                            std::int64_t micro_batches, GroupOf&& group_of) {
  const lower::Instances instances(program, micro_batches);
  const Holders holders(program);
  std::vector<Memory> out(groups);
  std::vector<std::set<std::pair<std::int64_t, std::vector<bool>>>> seen(groups);
  for (const auto device : program.digits.group(0, class_digits(program) | digits)) {
    stop_point();
    const auto group = static_cast<std::size_t>(group_of(device));
    // Devices of one rank that hold shards of the same buffers need the same memory.
    const auto rank = program.digits.rank_in_group(device, program.schedule.digits);
    if (!seen[group].emplace(rank, holders.of(device)).second) continue;
    const auto memory = OneDevice(program, instances, holders, device).peak();
    auto& most = out[group];
    if (memory.peak > most.peak) most = memory;
  }
  return out;
}

}  // namespace

Memory with_unused(Memory memory, const machine::Device& device) {
  memory.unused = device.software.fragmentation * memory.passing;
  memory.peak += memory.unused;
  return memory;
}

Memory memory_of(const Program& program, std::int64_t device) {
  return OneDevice(program, lower::Instances(program), Holders(program), device).peak();
}

std::vector<Moment> memory_over_time(const Program& program, std::int64_t device) {
  return OneDevice(program, lower::Instances(program), Holders(program), device).moments();
}

std::vector<HeldBuffer> held_at(const Program& program, std::int64_t device, std::size_t moment) {
  return OneDevice(program, lower::Instances(program), Holders(program), device).held(moment);
}

Memory memory_of(const Program& program) {
  return fullest(program, 0, 1, program.digits.micro_batches(), [](std::int64_t) { return 0; })
      .front();
}

std::vector<Memory> memory_by_group(const Program& program, const machine::Machine& machine,
                                    std::int64_t micro_batches) {
  auto out = fullest(program, group_digits(machine, program.digits),
                     std::max<std::size_t>(1, machine.groups.size()), micro_batches,
                     [&](std::int64_t device) { return machine.group_of(device); });
  for (auto& memory : out) memory = with_unused(memory, machine.device_of(memory.device));
  return out;
}

std::vector<Memory> memory_by_rank(const Program& program, const machine::Machine& machine) {
  const auto ranks = program.schedule.digits;
  const auto few = few_micro_batches(program);
  auto out = fullest(program, ranks, static_cast<std::size_t>(program.digits.group_size(ranks)),
                     few ? few->more : program.digits.micro_batches(), [&](std::int64_t device) {
                       return program.digits.rank_in_group(device, ranks);
                     });
  for (auto& memory : out) memory = with_unused(memory, machine.device_of(memory.device));
  return out;
}

}  // namespace tandem::predict
