// Rings that use different links at the same time. NCCL searches for such rings in a node whose
// GPUs are joined by direct links.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "machine/topology.h"

namespace tandem::machine {

// Returns the load of the fullest link, relative to what a unit sends and to the level's bandwidth.
// The group's bytes are shared by as many rings through all its units as its own links have room
// for, in both directions. A link has room for one ring per multiple of the thinnest link's
// bandwidth. Returns nullopt for groups of under 3 or over 8 units, for half-duplex links, and if
// there is no ring.
std::optional<double> compute_packed_rings_load(std::span<const std::int32_t> group,
                                                std::span<const Network::Link> links);

}  // namespace tandem::machine
