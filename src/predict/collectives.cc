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
struct Span {
  double size;           // units of the group at this level
  double inside;         // the group's devices within one such unit
  BytesPerSecond rated;  // of one device, when all send in the pattern
  Seconds latency;       // of a step of it
  const machine::Level& level;
  Step kind;

  // What of `rated` is reached when every device has so many bytes in it.
  [[nodiscard]] BytesPerSecond bandwidth(Bytes message) const {
    return rated * level.utilization_in(kind).at(message);
  }
  // Of one device per group and unit, when only that one sends. The devices of a unit that are not
  // in the group are in groups of their own, which do the same at the same time.
  [[nodiscard]] BytesPerSecond lone_bandwidth(Bytes message) const {
    return level.shared ? bandwidth(message) * inside : bandwidth(message);
  }
};

// What a step costs on a level, relative to a switch.
machine::Passage passage(const Machine& machine, const Digits& digits, machine::DigitMask group,
                         Pattern pattern, std::size_t l) {
  const auto& level = machine.levels[l];
  if (level.network == nullptr) return {1, level.latency};
  std::vector<std::int64_t> sizes;  // of the level's digits
  std::uint32_t mask = 0;           // of the group's digits among them
  for (std::size_t i = 0; i < digits.count(); ++i) {
    if (digits[i].level != l) continue;
    mask |= (group >> i & 1U) << sizes.size();
    sizes.push_back(digits[i].size);
  }
  return level.network->passage(pattern, sizes, mask);
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
    const auto [load, latency] = passage(machine, digits, group, pattern, l);
    visit(Span{size, inside, machine.bandwidth_per_device(l) / load, latency, level, kind});
    inside *= size;
  }
}

// A message goes in pieces, and while a level moves one the others move those before and behind it:
// the slowest level says how long it takes, and each adds the latency of its steps.
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

// Reduce-scatter: a ring on each level, over what the levels inside have left of every device's
// bytes. All-gather is the same backwards.
Seconds ring_pass(const Machine& machine, const Digits& digits, Step kind, machine::DigitMask group,
                  Bytes bytes) {
  Levels levels;
  for_each_span(machine, digits, group, kind, Pattern::kRing, [&](const Span& s) {
    const Bytes left = bytes / s.inside;
    levels.add((s.size - 1) / s.size * left / s.bandwidth(left), (s.size - 1) * s.latency);
  });
  return levels.time();
}

// All-reduce along two trees over the units, each with half of the bytes: a unit is a leaf in one
// and sends up and down in the other, so all bytes cross its link once each way, whatever the
// number of units; only the steps are fewer than a ring's. Devices inside the innermost unit still
// pass on in a ring.
constexpr double kTreeBandwidth = 0.92;  // NCCL's src/graph/tuning.cc: of a ring's, over a network

bool has_tree(const Machine& machine, const Span& s) {
  return s.level.trees && &s.level != &machine.levels.back() && s.size > 2;
}

Seconds tree_pass(const Machine& machine, const Digits& digits, machine::DigitMask group,
                  Bytes bytes) {
  Levels levels;
  const auto kind = Step::kAllReduce;
  for_each_span(machine, digits, group, kind, Pattern::kRing, [&](const Span& s) {
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
                [&](const Span& s) { out = out || has_tree(machine, s); });
  return out;
}

// Up and down again, the faster of both ways.
Seconds all_reduce(const Machine& machine, const Digits& digits, machine::DigitMask group,
                   Bytes bytes) {
  const auto ring = ring_pass(machine, digits, Step::kAllReduce, group, bytes);
  if (!may_use_trees(machine, digits, group)) return 2 * ring;
  return 2 * std::min(ring, tree_pass(machine, digits, group, bytes));
}

// Every byte crosses one level: the outermost one at which sender and receiver differ.
Seconds all_to_all(const Machine& machine, const Digits& digits, machine::DigitMask group,
                   Bytes bytes) {
  const auto n = static_cast<double>(digits.group_size(group));
  Levels levels;
  for_each_span(machine, digits, group, Step::kAllToAll, Pattern::kAllToAll, [&](const Span& s) {
    const auto crossing = (s.size - 1) * s.inside / n;
    levels.add(bytes * crossing / s.bandwidth(bytes), (s.size - 1) * s.latency);
  });
  return levels.time();
}

// Broadcast: a pipelined chain on each level, one device per unit passing everything on.
Seconds chain(const Machine& machine, const Digits& digits, Step kind, machine::DigitMask group,
              Bytes bytes) {
  Levels levels;
  for_each_span(machine, digits, group, kind, Pattern::kChain, [&](const Span& s) {
    levels.add(bytes / s.lone_bandwidth(bytes), (s.size - 1) * s.latency);
  });
  return levels.time();
}

// Scatter: the root sends each other device its part, all through the outermost link.
Seconds from_root(const Machine& machine, const Digits& digits, Step kind, machine::DigitMask group,
                  Bytes bytes) {
  const auto n = static_cast<double>(digits.group_size(group));
  Seconds total;
  for_each_span(machine, digits, group, kind, Pattern::kFromRoot, [&](const Span& s) {
    total = (n - 1) / n * bytes / s.lone_bandwidth(bytes) + s.latency;
  });
  return total;
}

struct Link {
  BytesPerSecond bandwidth;
  Seconds latency;
};

// Of one device on the outermost level, while all send so many bytes to one other.
Link outermost_link(const Machine& machine, const Digits& digits, Step kind,
                    machine::DigitMask group, Bytes bytes) {
  const auto l = outermost_level(digits, group);
  const auto [load, latency] = passage(machine, digits, group, Pattern::kChain, l);
  const auto utilization = machine.levels[l].utilization_in(kind).at(bytes);
  return {machine.bandwidth_per_device(l) * utilization / load, latency};
}

// Every device of one place to the device at the other, while all other pairs do the same.
Seconds send(const Machine& machine, const Digits& digits, machine::DigitMask group, Bytes bytes) {
  const auto link = outermost_link(machine, digits, Step::kSend, group, bytes);
  return bytes / link.bandwidth + link.latency;
}

Seconds time_once_started(const Machine& machine, const Digits& digits, Step kind,
                          machine::DigitMask group, Bytes bytes) {
  switch (kind) {
    case Step::kAllReduce:
      return all_reduce(machine, digits, group, bytes);
    case Step::kReduceScatter:
    case Step::kAllGather:
      return ring_pass(machine, digits, kind, group, bytes);
    case Step::kAllToAll:
      return all_to_all(machine, digits, group, bytes);
    case Step::kReduce:
    case Step::kBroadcast:
      return chain(machine, digits, kind, group, bytes);
    case Step::kGather:
    case Step::kScatter:
      return from_root(machine, digits, kind, group, bytes);
    case Step::kSend:
    case Step::kShift:
      return send(machine, digits, group, bytes);
    default:
      CHECK(is_local(kind));
      return Seconds{};
  }
}

}  // namespace

Seconds collective_time(const Machine& machine, const Digits& digits, Step kind,
                        machine::DigitMask group, Bytes bytes) {
  const auto time = time_once_started(machine, digits, kind, group, bytes);
  return is_local(kind) || digits.group_size(group) == 1 ? time : time + machine.device.collective;
}

Seconds carrying_time(const Machine& machine, const Digits& digits, Step kind,
                      machine::DigitMask group, Bytes bytes) {
  return collective_time(machine, digits, kind, group, bytes) -
         collective_time(machine, digits, kind, group, Bytes{});
}

Seconds send_time(const Machine& machine, const Digits& digits, machine::DigitMask group,
                  machine::DigitMask copies, Bytes bytes) {
  const auto outermost = outermost_level(digits, group);
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
  const auto link = outermost_link(machine, digits, Step::kHalo, group, bytes);
  return bytes / link.bandwidth + static_cast<double>(messages) * link.latency +
         machine.device.collective;
}

bool is_affine(const Machine& machine, const Digits& digits, Step kind, machine::DigitMask group) {
  if (kind == Step::kAllReduce && may_use_trees(machine, digits, group)) return false;
  for (std::size_t l = 0; l < machine.levels.size(); ++l) {
    if (digits.group_size(group, l) > 1 && !machine.levels[l].utilization_in(kind).is_constant()) {
      return false;
    }
  }
  return true;
}

std::size_t outermost_level(const Digits& digits, machine::DigitMask group) {
  CHECK((group & digits.all()) != 0, group);
  return digits[static_cast<std::size_t>(std::countr_zero(group))].level;
}

Bytes bytes_sent(const Digits& digits, Step kind, machine::DigitMask group, Bytes bytes) {
  const auto n = static_cast<double>(digits.group_size(group));
  const Bytes others = (n - 1) / n * bytes;
  switch (kind) {
    case Step::kAllReduce:
      return 2 * others;
    case Step::kReduceScatter:
    case Step::kAllGather:
    case Step::kAllToAll:
    case Step::kReduce:
    case Step::kBroadcast:
      return others;
    case Step::kGather:
    case Step::kScatter:
      return others / n;
    case Step::kSend:
      return bytes / n;
    case Step::kShift:
      return bytes;
    default:
      CHECK(is_local(kind));
      return Bytes{};
  }
}

}  // namespace tandem::predict
