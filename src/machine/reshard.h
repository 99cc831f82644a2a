// How a tensor gets from one layout to another: a short list of collectives and local steps.
//
// A digit's role before and after names the step: partial to replica is an all-reduce, partial to a
// dimension a reduce-scatter, a dimension to replica an all-gather, one dimension to another an
// all-to-all, replica to a dimension a free slice. So Reduce + Replicate, Reduce + Partition,
// Combine + Replicate, Combine + Partition fuse by construction.
// A digit can only leave or join a dimension as its minor one; where another digit is in the way,
// that one is gathered first and cut again after.
#pragma once

#include <vector>

#include "machine/layout.h"

namespace tandem::machine {

enum class Step : std::uint8_t {
  // Local.
  kSlice,  // replica -> dim: keep the own part
  kDrop,   // replica -> idle: free the copies
  kMask,   // replica -> partial: zero on all but the first
  kPad,    // dim -> partial: zero around the own part
  kZero,   // idle -> partial: zero on all but the first
  // Collective.
  kAllReduce,      // partial -> replica
  kReduceScatter,  // partial -> dim
  kAllGather,      // dim -> replica
  kAllToAll,       // dim -> another dim
  kReduce,         // partial -> idle
  kGather,         // dim -> idle
  kBroadcast,      // idle -> replica
  kScatter,        // idle -> dim
  kSend,           // idle -> idle at another place
  // Not between layouts: every device gets the shard of the next one in its group.
  kShift,
  // Not between layouts: between a tensor's shards and windows of it (machine/window.h).
  kHalo,        // shards -> windows: get what lies beyond the own shard
  kHaloReduce,  // windows -> shards, of gradients: give it back, to be added up
};
constexpr bool is_local(Step s) { return s <= Step::kZero; }
constexpr bool is_halo(Step s) { return s >= Step::kHalo; }
std::string_view name(Step s);  // "all_reduce"

// In a collective with a root (reduce, gather, broadcast, scatter, send: its source) the root is
// the device at the idle digits' place.
struct ReshardStep {
  Step kind = Step::kSlice;
  DigitMask digits = 0;      // over which devices
  std::size_t from_dim = 0;  // where digits leave a dimension
  std::size_t to_dim = 0;    // where they join one
  Layout before, after;
};

// The root's rank in its group; 0 for a collective without one. And that of a send's target.
std::int64_t root_of(const ReshardStep& step, const Digits& digits);
std::int64_t target_of(const ReshardStep& step, const Digits& digits);

std::vector<ReshardStep> reshard(const Layout& from, const Layout& to);

}  // namespace tandem::machine
