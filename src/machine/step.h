// The steps that move tensors, local ones and collectives; machine/reshard.h chooses among them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::machine {

enum class Step : std::uint8_t {
  // Local steps.
  kSlice,  // replica -> dim: retains the own part
  kDrop,   // replica -> idle: frees the replicas
  kMask,   // replica -> partial: zero on all but the first
  kPad,    // dim -> partial: zero around the own part
  kZero,   // idle -> partial: zero on all but the first
  // Collectives.
  kAllReduce,      // partial -> replica
  kReduceScatter,  // partial -> dim
  kAllGather,      // dim -> replica
  kAllToAll,       // dim -> another dim
  kReduce,         // partial -> idle
  kGather,         // dim -> idle
  kBroadcast,      // idle -> replica
  kScatter,        // idle -> dim
  kSend,           // idle -> idle at another place
  // Shifts, not between layouts: every device gets the shard of the next one in its group.
  kShift,
  // Halo exchanges, not between layouts: between a tensor's shards and windows (machine/window.h).
  kHalo,        // shards -> windows: fetches the elements beyond the own shard
  kHaloReduce,  // windows -> shards, of gradients: returns them to be summed
};
constexpr bool is_local(Step s) { return s <= Step::kZero; }
constexpr bool is_halo(Step s) { return s >= Step::kHalo; }
std::string_view name(Step s);  // "all_reduce"
// Returns the collective of this name, or nullopt.
std::optional<Step> parse_collective(std::string_view text);

}  // namespace tandem::machine
