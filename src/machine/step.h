// The steps that move tensors, local ones and collectives: machine/reshard.h says when.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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
// The collective of this name.
std::optional<Step> parse_collective(std::string_view text);

}  // namespace tandem::machine
