// Rings that use different links at the same time, as NCCL searches for them in a node whose GPUs
// are joined by links of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "machine/topology.h"

namespace tandem::machine {

// How much the fullest link carries, relative to what a unit sends and to the level's bandwidth,
// where a group's bytes are shared by as many rings through all its units as its own links have
// room for, in both directions. A link has room for as many rings as it has times the bandwidth of
// the thinnest one. Nothing for groups of under 3 or over 8 units, for half duplex links, and where
// there is no such ring.
std::optional<double> packed_rings_load(std::span<const std::int32_t> group,
                                        std::span<const Network::Link> links);

}  // namespace tandem::machine
