// The devices that send in a reshard step. This is the definition of each step from the point of
// view of one device that receives.
#pragma once

#include <cstdint>

#include "machine/step.h"

namespace tandem::lower {

// The devices of a group that send to one of them.
enum class Senders : std::uint8_t {
  kSelf,        // the device keeps its own shard
  kSelfIfRoot,  // the root keeps its shard; the others become zero
  kNext,        // the next device, whose shard it receives
  kRoot,        // the root, which has what all devices receive, whole or a part
  kSummands,    // all devices; each has a summand
  kPieces,      // all devices; each has a different piece
  kWindows,     // all devices; each has summands of some elements
};

// Returns the senders of a step of kind `step`.
Senders get_senders(machine::Step step);

}  // namespace tandem::lower
