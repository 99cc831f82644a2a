#include "predict/collectives.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace tandem::predict {

namespace {

using machine::Digits;
using machine::Machine;
using machine::Step;

using machine::Pattern;

// One level that the group spans, seen from the inside out.
struct LevelSpan {
  double size;           // units of the group at this level
  double inside;         // devices of the group within one such unit
  BytesPerSecond rated;  // per device, if all send in this pattern
  Seconds latency;       // latency of one step of the pattern
  const machine::Level& level;
  Step kind;

  // Returns the bandwidth that messages of this size reach.
  [[nodiscard]] BytesPerSecond bandwidth(Bytes message) const {
    return rated * level.get_utilization(kind).at(message);
  }
  // Returns the bandwidth of one device if only one device per group and unit sends. The other
  // devices of a unit belong to other groups, which run the same collective at the same time.
  [[nodiscard]] BytesPerSecond lone_bandwidth(Bytes message) const {
    return level.shared ? bandwidth(message) * inside : bandwidth(message);
  }
};

// Returns the load and latency of one step on level `l`. The load is relative to a switch.
machine::PatternCost compute_passage(const Machine& machine, const Digits& digits,
                                     machine::DigitMask group, Pattern pattern, std::size_t l) {
  const auto& level = machine.levels[l];
  if (level.network == nullptr) return {1, level.latency};
  std::vector<std::int64_t> sizes;  // sizes of the level's digits
  std::uint32_t mask = 0;           // group's digits among them
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (digits[i].level != l) continue;
    mask |= (group >> i & 1U) << sizes.size();
    sizes.push_back(digits[i].size);
  }
  return level.network->compute_cost(pattern, sizes, mask);
}

// Calls visit(span) for each level that the group spans, innermost first.
template <class Visit>
void for_each_span(const Machine& machine, const Digits& digits, machine::DigitMask group,
                   Step kind, Pattern pattern, Visit&& visit) {
  double inside = 1;
  for (std::size_t l = machine.levels.size(); l-- > 0;) {
    const auto size = static_cast<double>(digits.group_size(group, l));
    if (size == 1) continue;
    const auto& level = machine.levels[l];
    const auto [load, latency] = compute_passage(machine, digits, group, pattern, l);
    visit(LevelSpan{size, inside, machine.bandwidth_per_device(l) / load, latency, level, kind});
    inside *= size;
  }
}

// Combines the levels of a pipelined message. While one level moves one chunk, the other levels
// move the chunks before and after it. The slowest level therefore determines the time, and each
// level adds the latency of its steps.
class Levels {
 public:
  void add(Seconds carrying, Seconds latency) {
    slowest_ = std::max(slowest_, carrying);
    steps_ += latency;
  }
  [[nodiscard]] Seconds time() const { return slowest_ + steps_; }

 private:
  Seconds slowest_, steps_;
};

// Returns the time of a reduce-scatter: a ring on each level over the bytes that the levels inside
// have left. An all-gather is the same in reverse.
Seconds ring_time(const Machine& machine, const Digits& digits, Step kind, machine::DigitMask group,
                  Bytes bytes) {
  Levels levels;
  for_each_span(machine, digits, group, kind, Pattern::kRing, [&](const LevelSpan& s) {
    const Bytes left = bytes / s.inside;
    levels.add((s.size - 1) / s.size * left / s.bandwidth(left), (s.size - 1) * s.latency);
  });
  return levels.time();
}

// Tree all-reduce: two trees over the units, each with half of the bytes. A unit is a leaf in one
// tree and sends up and down in the other. All bytes therefore cross its link once each way, as in
// a ring, for any number of units; only the steps are fewer than a ring's. Devices inside the
// innermost unit still use a ring.
constexpr double kTreeBandwidth = 0.92;  // relative to a ring (NCCL's src/graph/tuning.cc)

bool has_tree(const Machine& machine, const LevelSpan& s) {
  return s.level.trees && &s.level != &machine.levels.back() && s.size > 2;
}

Seconds tree_time(const Machine& machine, const Digits& digits, machine::DigitMask group,
                  Bytes bytes) {
  Levels levels;
  const auto kind = Step::kAllReduce;
  for_each_span(machine, digits, group, kind, Pattern::kRing, [&](const LevelSpan& s) {
    const Bytes left = bytes / s.inside;
    if (has_tree(machine, s)) {
      levels.add(left / (kTreeBandwidth * s.bandwidth(left)),
                 std::ceil(std::log2(s.size)) * s.latency);
    } else {
      levels.add((s.size - 1) / s.size * left / s.bandwidth(left), (s.size - 1) * s.latency);
    }
  });
  return levels.time();
}

bool may_use_trees(const Machine& machine, const Digits& digits, machine::DigitMask group) {
  bool out = false;
  for_each_span(machine, digits, group, Step::kAllReduce, Pattern::kRing,
                [&](const LevelSpan& s) { out = out || has_tree(machine, s); });
  return out;
}

// Returns the time of reduce-scatter plus all-gather, by rings or trees, whichever is faster.
Seconds all_reduce_time(const Machine& machine, const Digits& digits, machine::DigitMask group,
                        Bytes bytes) {
  const auto ring = ring_time(machine, digits, Step::kAllReduce, group, bytes);
  if (!may_use_trees(machine, digits, group)) return 2 * ring;
  return 2 * std::min(ring, tree_time(machine, digits, group, bytes));
}

// Returns the time of an all-to-all. Each byte crosses only the outermost level at which sender and
// receiver differ.
Seconds all_to_all_time(const Machine& machine, const Digits& digits, machine::DigitMask group,
                        Bytes bytes) {
  const auto n = static_cast<double>(digits.group_size(group));
  Levels levels;
  for_each_span(machine, digits, group, Step::kAllToAll, Pattern::kAllToAll,
                [&](const LevelSpan& s) {
                  const auto crossing = (s.size - 1) * s.inside / n;
                  levels.add(bytes * crossing / s.bandwidth(bytes), (s.size - 1) * s.latency);
                });
  return levels.time();
}

// Returns the time of a broadcast: a pipelined chain on each level, with one device per unit that
// forwards everything.
Seconds chain_time(const Machine& machine, const Digits& digits, Step kind,
                   machine::DigitMask group, Bytes bytes) {
  Levels levels;
  for_each_span(machine, digits, group, kind, Pattern::kChain, [&](const LevelSpan& s) {
    levels.add(bytes / s.lone_bandwidth(bytes), (s.size - 1) * s.latency);
  });
  return levels.time();
}

// Returns the time of a scatter: the root sends each other device its shard, all through the
// outermost link.
Seconds scatter_time(const Machine& machine, const Digits& digits, Step kind,
                     machine::DigitMask group, Bytes bytes) {
  const auto n = static_cast<double>(digits.group_size(group));
  Seconds total;
  for_each_span(machine, digits, group, kind, Pattern::kFromRoot, [&](const LevelSpan& s) {
    total = (n - 1) / n * bytes / s.lone_bandwidth(bytes) + s.latency;
  });
  return total;
}

struct OutermostLink {
  BytesPerSecond bandwidth;
  Seconds latency;
};

// Returns the link of one device on the outermost level, if all devices send `bytes` bytes to one
// other.
OutermostLink find_outermost_link(const Machine& machine, const Digits& digits, Step kind,
                                  machine::DigitMask group, Bytes bytes) {
  const auto l = find_outermost_level(digits, group);
  const auto [load, latency] = compute_passage(machine, digits, group, Pattern::kChain, l);
  const auto utilization = machine.levels[l].get_utilization(kind).at(bytes);
  return {machine.bandwidth_per_device(l) * utilization / load, latency};
}

// Returns the time of a send from each device of one place to its peer in the other, while all
// other pairs do the same.
Seconds peer_send_time(const Machine& machine, const Digits& digits, machine::DigitMask group,
                       Bytes bytes) {
  const auto link = find_outermost_link(machine, digits, Step::kSend, group, bytes);
  return bytes / link.bandwidth + link.latency;
}

Seconds transfer_time(const Machine& machine, const Digits& digits, Step kind,
                      machine::DigitMask group, Bytes bytes) {
  switch (kind) {
    case Step::kAllReduce:
      return all_reduce_time(machine, digits, group, bytes);
    case Step::kReduceScatter:
    case Step::kAllGather:
      return ring_time(machine, digits, kind, group, bytes);
    case Step::kAllToAll:
      return all_to_all_time(machine, digits, group, bytes);
    case Step::kReduce:
    case Step::kBroadcast:
      return chain_time(machine, digits, kind, group, bytes);
    case Step::kGather:
    case Step::kScatter:
      return scatter_time(machine, digits, kind, group, bytes);
    case Step::kSend:
    case Step::kShift:
      return peer_send_time(machine, digits, group, bytes);
    default:
      CHECK(is_local(kind));
      return Seconds{};
  }
}

}  // namespace

Seconds collective_time(const Machine& machine, const Digits& digits, Step kind,
                        machine::DigitMask group, Bytes bytes) {
  const auto time = transfer_time(machine, digits, kind, group, bytes);
  return is_local(kind) || digits.group_size(group) == 1 ? time : time + machine.device.collective;
}

Seconds bandwidth_time(const Machine& machine, const Digits& digits, Step kind,
                       machine::DigitMask group, Bytes bytes) {
  return collective_time(machine, digits, kind, group, bytes) -
         collective_time(machine, digits, kind, group, Bytes{});
}

Seconds send_time(const Machine& machine, const Digits& digits, machine::DigitMask group,
                  machine::DigitMask copies, Bytes bytes) {
  const auto outermost = find_outermost_level(digits, group);
  machine::DigitMask inside = 0;
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (digits[i].level > outermost && digits[i].level != machine::kTimeLevel)
      inside |= machine::DigitMask{1} << i;
  }
  copies &= inside & ~group;
  if (!machine.device.software.send_parts || copies == 0) {
    return collective_time(machine, digits, Step::kSend, group, bytes);
  }
  const auto parts = static_cast<double>(digits.group_size(copies));
  return collective_time(machine, digits, Step::kSend, group, bytes / parts) +
         collective_time(machine, digits, Step::kAllGather, copies, bytes);
}

Seconds halo_time(const Machine& machine, const Digits& digits, machine::DigitMask group,
                  Bytes bytes, std::int64_t messages) {
  if (messages == 0) return {};
  const auto link = find_outermost_link(machine, digits, Step::kHalo, group, bytes);
  return bytes / link.bandwidth + static_cast<double>(messages) * link.latency +
         machine.device.collective;
}

bool is_affine(const Machine& machine, const Digits& digits, Step kind, machine::DigitMask group) {
  if (kind == Step::kAllReduce && may_use_trees(machine, digits, group)) return false;
  for (std::size_t l = 0; l < machine.levels.size(); ++l) {
    if (digits.group_size(group, l) > 1 && !machine.levels[l].get_utilization(kind).is_constant()) {
      return false;
    }
  }
  return true;
}

std::size_t find_outermost_level(const Digits& digits, machine::DigitMask group) {
  CHECK((group & digits.all()) != 0, group);
  return digits[static_cast<std::size_t>(std::countr_zero(group))].level;
}

}  // namespace tandem::predict
