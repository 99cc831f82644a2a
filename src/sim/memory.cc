#include "sim/memory.h"

#include <algorithm>

#include "lower/instances.h"
#include "lower/order.h"

namespace tandem::sim {

namespace {

using lower::BufferId;
using lower::Program;

// What one device has while it takes its turns.
class OneDevice {
 public:
  OneDevice(const Program& program, const lower::Instances& instances, std::int64_t device)
      : program_(program),
        instances_(instances),
        rank_(program.digits.rank_in_group(device, program.schedule.digits)),
        steps_(lower::steady_steps(program).simulated),
        turns_(turns_of(program.schedule, instances.ranks(), rank_, program.phase, steps_)),
        last_(instances.count(rank_) * static_cast<std::size_t>(steps_)) {
    for (const auto& b : program.buffers) has_.push_back(holds(b.layout, program.digits, device));
  }

  Memory peak() {
    Memory out;
    Bytes reserved;
    std::vector<Parts> change;
    for_each_task([&](const lower::Task& task, const lower::Turn& turn, std::size_t now) {
      for_each_use(task, turn, [&](BufferId, std::size_t instance) { last_[instance] = now + 1; });
      turn_of_.push_back(static_cast<std::uint32_t>(&turn - turns_.data()));
      change.resize(now + 2);
    });
    if (change.empty()) change.resize(1);
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!has_[b]) continue;
      const auto& buffer = program_.buffers[b];
      if (buffer.is_persistent()) {
        const auto bytes = static_cast<double>(program_.versions(BufferId(b))) * buffer.bytes();
        out.persistent += bytes;
        out.parts[static_cast<std::size_t>(buffer.kind)] += bytes;
      }
      if (buffer.reserved) {
        const auto bytes = buffer.bytes() - buffer.shared;
        reserved += bytes;
        out.parts[static_cast<std::size_t>(buffer.kind)] += bytes;
      }
      // What is fed once is there from the start.
      const bool fed = buffer.kind == lower::BufferKind::kInput && !buffer.each;
      const auto instance = instance_of(BufferId(b), 0, 0);
      if (fed && last_[instance] != 0) begin(change, BufferId(b), instance, 0);
    }
    kept_.assign(turns_.size(), 0);
    for_each_task([&](const lower::Task& task, const lower::Turn& turn, std::size_t now) {
      for_each_use(task, turn, [&](BufferId b, std::size_t instance) {
        if (last_[instance] != kBegun) begin(change, b, instance, now);
      });
      const auto row = bucket_bytes(program_, task).value;
      if (row == 0 || !has_[task.reads[0].index()]) return;
      change[now][kGradient] += row;
      change[now + 1][kGradient] -= row;
    });
    Parts now{};
    Parts at_peak{};
    double peak = 0;
    for (const auto& c : change) {
      double sum = 0;
      for (std::size_t k = 0; k < c.size(); ++k) sum += now[k] += c[k];
      if (sum <= peak) continue;
      peak = sum;
      at_peak = now;
    }
    for (std::size_t k = 0; k < at_peak.size(); ++k) out.parts[k] += Bytes{at_peak[k]};
    out.peak = out.persistent + reserved + Bytes{peak};
    out.kept = kept_between_turns();
    return out;
  }

 private:
  static constexpr auto kGradient = static_cast<std::size_t>(lower::BufferKind::kGradient);
  static constexpr std::size_t kBegun = static_cast<std::size_t>(-1);
  using Parts = std::array<double, std::tuple_size_v<decltype(Memory::parts)>>;  // bytes

  // What one step leaves in a buffer is gone when the next one writes it.
  [[nodiscard]] std::size_t instance_of(BufferId b, std::int64_t micro_batch,
                                        std::int64_t step) const {
    return instances_.of(b, micro_batch, step) +
           instances_.count(rank_) * static_cast<std::size_t>(step);
  }

  // visit(task, turn, when): in the order of the turns.
  template <class Visit>
  void for_each_task(Visit&& visit) const {
    std::size_t now = 0;
    for (const auto& turn : turns_) {
      for (auto t : program_.segment(turn.stage, turn.part).tasks) {
        const auto& task = program_.tasks[t];
        if (runs_in(task, turn.micro_batch, program_.digits.micro_batches())) {
          visit(task, turn, now++);
        }
      }
    }
  }

  // visit(buffer, instance): all that a task reads, writes and keeps.
  template <class Visit>
  void for_each_use(const lower::Task& task, const lower::Turn& turn, Visit&& visit) const {
    const auto use = [&](BufferId b) {
      if (b == Program::kNone || !has_[b.index()]) return;
      visit(b, instance_of(b, turn.micro_batch, turn.step));
    };
    std::ranges::for_each(task.reads, use);
    std::ranges::for_each(task.writes, use);
    use(task.mask);
  }

  void begin(std::vector<Parts>& change, BufferId b, std::size_t instance, std::size_t now) {
    const auto& buffer = program_.buffer(b);
    if (!buffer.is_persistent() && !buffer.reserved) {
      const auto kind = static_cast<std::size_t>(buffer.kind);
      const double bytes = (buffer.bytes() - buffer.shared).value;
      change[now][kind] += bytes;
      change[last_[instance]][kind] -= bytes;
      if (buffer.kind == lower::BufferKind::kActivation) keep(now, last_[instance] - 1, bytes);
    }
    last_[instance] = kBegun;
  }

  // What is there from one task to another is kept between the turns from the first's to the
  // second's.
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
  std::vector<bool> has_;  // by buffer
  std::int64_t rank_;      // of the pipeline
  std::int64_t steps_;
  std::vector<lower::Turn> turns_;
  std::vector<std::size_t>
      last_;  // by instance and step: after its last use; kBegun once it is counted
  std::vector<std::uint32_t> turn_of_;  // by task that runs
  std::vector<double> kept_;            // by turn: how much more is kept after it than before
};

// The fullest device of each group; devices alike in `digits`, and in what they do, are of one.
template <class GroupOf>
std::vector<Memory> fullest(const Program& program, machine::DigitMask digits, std::size_t groups,
                            GroupOf&& group_of) {
  const lower::Instances instances(program);
  std::vector<Memory> out(groups);
  for (const auto device : program.digits.group(0, class_digits(program) | digits)) {
    const auto memory = OneDevice(program, instances, device).peak();
    auto& most = out[group_of(device)];
    if (memory.peak > most.peak) most = memory;
  }
  return out;
}

}  // namespace

Memory memory_of(const Program& program, std::int64_t device) {
  return OneDevice(program, lower::Instances(program), device).peak();
}

Memory memory_of(const Program& program) {
  return fullest(program, 0, 1, [](std::int64_t) { return 0; }).front();
}

std::vector<Memory> memory_by_group(const Program& program, const machine::Machine& machine) {
  return fullest(program, group_digits(machine, program.digits),
                 std::max<std::size_t>(1, machine.groups.size()),
                 [&](std::int64_t device) { return machine.group_of(device); });
}

}  // namespace tandem::sim
