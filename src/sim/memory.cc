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
      : program_(program), instances_(instances) {
    const auto rank = program.digits.rank_in_group(device, program.schedule.digits);
    turns_ = turns_of(program.schedule, instances.ranks(), rank, program.phase);
    last_.resize(instances.count(rank));
    for (const auto& b : program.buffers) has_.push_back(holds(b.layout, program.digits, device));
  }

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
      if (!has_[b]) continue;
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

  // visit(buffer, instance, when): all reads and writes in the order of the turns.
  template <class Visit>
  void for_each_use(Visit&& visit) const {
    std::size_t now = 0;
    for (const auto& turn : turns_) {
      for (auto t : program_.segment(turn.stage, turn.part).tasks) {
        const auto& task = program_.tasks[t];
        if (!runs_in(task, turn.micro_batch, program_.digits.micro_batches())) continue;
        const auto use = [&](BufferId b) {
          if (b == Program::kNone || !has_[b.index()]) return;
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
  std::vector<bool> has_;  // by buffer
  std::vector<lower::Turn> turns_;
  std::vector<std::size_t> last_;  // by instance: after its last use; kBegun once it is counted
};

}  // namespace

Memory memory_of(const Program& program, std::int64_t device) {
  return OneDevice(program, lower::Instances(program), device).peak();
}

Memory memory_of(const Program& program) {
  const lower::Instances instances(program);
  Memory out;
  for (auto device : program.digits.group(0, class_digits(program))) {
    const auto memory = OneDevice(program, instances, device).peak();
    if (memory.peak > out.peak) out = memory;
  }
  return out;
}

}  // namespace tandem::sim
