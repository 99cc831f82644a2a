// Finds device equivalence classes: devices that do the same work at the same times in different
// places. The simulator then simulates one class for all equivalent ones. Example: of 192 devices,
// 26 hold an embedding table each; the other 166 are equivalent.
//
// The algorithm is color refinement, as for graph isomorphism. Devices start with one color if they
// hold shards of the same buffers and are the root of the same moves. A color is then split where
// its devices meet devices of different colors, until no color splits any more.
#pragma once

#include <cstdint>
#include <vector>

#include "lower/program.h"
#include "machine/machine.h"
#include "predict/class_groups.h"
#include "predict/shard_holders.h"

namespace tandem::predict {

// Returns, by class, a number that all equivalent classes share. Numbers are counted in the order
// of the classes.
std::vector<std::uint32_t> find_equivalent_classes(const lower::Program& program,
                                                   const machine::Machine& machine,
                                                   const Holders& holders, ClassGroups& groups);

}  // namespace tandem::predict
