#include "sim/memory.h"

#include <algorithm>

#include "lower/instances.h"
#include "lower/order.h"

namespace tandem::sim {

namespace {

using lower::BufferId;
using lower::Program;

// The buffers of the devices that are where `device` is, in the digits of the pipeline and in
// `digits`, while they take their turns.
class Rank {
 public:
  Rank(const Program& program, const lower::Instances& instances, std::int64_t device,
       machine::DigitMask digits)
      : program_(program),
        instances_(instances),
        device_(device),
        digits_(digits),
        rank_(program.digits.rank_in_group(device, program.schedule.digits)),
        turns_(turns_of(program.schedule, instances.ranks(), rank_, program.phase)),
        last_(instances.count(rank_)) {}

  Memory peak() {
    Memory out;
    std::vector<Parts> change;
    for_each_use([&](BufferId b, std::size_t instance, std::size_t now) {
      (void)b;
      last_[instance] = now + 1;
      change.resize(now + 2);
    });
    if (change.empty()) change.resize(1);
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!is_here(BufferId(b))) continue;
      const auto& buffer = program_.buffers[b];
      if (buffer.is_persistent()) {
        out.persistent += buffer.bytes();
        out.parts[static_cast<std::size_t>(buffer.kind)] += buffer.bytes();
      }
      // What is fed once is there from the start.
      const bool fed = buffer.kind == lower::BufferKind::kInput && !buffer.each;
      const auto instance = instances_.of(BufferId(b), 0);
      if (fed && last_[instance] != 0) begin(change, BufferId(b), instance, 0);
    }
    for_each_use([&](BufferId b, std::size_t instance, std::size_t now) {
      if (last_[instance] != kBegun) begin(change, b, instance, now);
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
    out.peak = out.persistent + Bytes{peak};
    return out;
  }

 private:
  static constexpr std::size_t kBegun = static_cast<std::size_t>(-1);
  using Parts = std::array<double, std::tuple_size_v<decltype(Memory::parts)>>;  // bytes

  [[nodiscard]] bool is_here(BufferId b) const {
    if (instances_.rank_of(b) != rank_) return false;
    if (digits_ == 0) return true;
    const auto& layout = program_.buffer(b).layout;
    for (std::size_t i = 0; i < layout.count(); ++i) {
      const bool counts = (digits_ >> i & 1U) != 0 && layout[i].is_idle();
      if (counts && layout[i].place() != program_.digits.coordinate(device_, i)) return false;
    }
    return true;
  }

  // visit(buffer, instance, when): all reads and writes in the order of the turns.
  template <class Visit>
  void for_each_use(Visit&& visit) const {
    std::size_t now = 0;
    for (const auto& turn : turns_) {
      for (auto t : program_.segment(turn.stage, turn.part).tasks) {
        const auto& task = program_.tasks[t];
        if (!runs_in(task, turn.micro_batch, program_.digits.micro_batches())) continue;
        const auto use = [&](BufferId b) {
          if (b == Program::kNone || !is_here(b)) return;
          visit(b, instances_.of(b, turn.micro_batch), now);
        };
        std::ranges::for_each(task.reads, use);
        std::ranges::for_each(task.writes, use);
        ++now;
      }
    }
  }

  void begin(std::vector<Parts>& change, BufferId b, std::size_t instance, std::size_t now) {
    const auto& buffer = program_.buffer(b);
    if (!buffer.is_persistent()) {
      const auto kind = static_cast<std::size_t>(buffer.kind);
      change[now][kind] += buffer.bytes().value;
      change[last_[instance]][kind] -= buffer.bytes().value;
    }
    last_[instance] = kBegun;
  }

  const Program& program_;
  const lower::Instances& instances_;
  std::int64_t device_;
  machine::DigitMask digits_;
  std::int64_t rank_;
  std::vector<lower::Turn> turns_;
  std::vector<std::size_t> last_;  // by instance: after its last use; kBegun once it is counted
};

// The fullest device of each group; devices alike in `digits` are of one.
template <class GroupOf>
std::vector<Memory> fullest(const Program& program, machine::DigitMask digits, std::size_t groups,
                            GroupOf&& group_of) {
  const lower::Instances instances(program);
  std::vector<Memory> out(groups);
  for (const auto device : program.digits.group(0, program.schedule.digits | digits)) {
    const auto memory = Rank(program, instances, device, digits).peak();
    auto& most = out[group_of(device)];
    if (memory.peak > most.peak) most = memory;
  }
  return out;
}

}  // namespace

Memory memory_of(const Program& program) {
  return fullest(program, 0, 1, [](std::int64_t) { return 0; }).front();
}

std::vector<Memory> memory_by_group(const Program& program, const machine::Machine& machine) {
  return fullest(program, group_digits(machine, program.digits),
                 std::max<std::size_t>(1, machine.groups.size()),
                 [&](std::int64_t device) { return machine.group_of(device); });
}

}  // namespace tandem::sim
