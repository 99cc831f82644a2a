// Predicts the time of a collective over a group of devices, given by the machine digits that it
// spans.
//
// Collectives are hierarchical. Inner levels run first, and each level moves the bytes that the
// levels inside have left, by ring formulas. The machine says how devices share a level's
// bandwidth. The bandwidth is scaled by the utilization at this message size and divided by the
// load of the fullest link (machine/topology.h). If a level has trees, an all-reduce uses them when
// they are faster: for small messages and many units. Each collective adds a fixed start-up time.
//
// Example: all-reduce of 80 MB on 2 nodes of 4 GPUs. Each GPU has 100 GB/s inside its node and 10
// GB/s between nodes. A ring inside moves 3/4 x 80 MB in 0.6 ms. The rings between move 1/2 x 20 MB
// in 1 ms. Both levels work at the same time, for the reduce-scatter and then for the all-gather: 2
// x 1 ms, plus latencies and the start-up time.
#pragma once

#include "machine/digits.h"
#include "machine/reshard.h"

namespace tandem::predict {

// Returns the time of a collective of kind `kind` over `group`. `bytes` is the largest buffer of
// one device: the input of all-reduce and reduce-scatter, the output of all-gather, the data of
// all-to-all and broadcast. Local steps and groups of one device take no time. All devices outside
// the group are assumed to run the same collective in groups of their own. In an all-to-all, each
// byte crosses only the outermost level at which sender and receiver differ.
Seconds collective_time(const machine::Machine& machine, const machine::Digits& digits,
                        machine::Step kind, machine::DigitMask group, Bytes bytes);

// Returns the part of collective_time that grows with `bytes`. The rest is a fixed cost, which not
// every buffer in a shared collective pays.
Seconds bandwidth_time(const machine::Machine& machine, const machine::Digits& digits,
                       machine::Step kind, machine::DigitMask group, Bytes bytes);

// Returns whether collective_time is latency + bytes x a constant. Returns false if a spanned
// level's utilization is a curve, or if an all-reduce may use trees.
bool is_affine(const machine::Machine& machine, const machine::Digits& digits, machine::Step kind,
               machine::DigitMask group);

// Returns the time of a point-to-point send across `group` of a tensor that is replicated over
// `copies`. If the software sends parts, each replica inside a unit sends one part, and the
// receivers all-gather the parts.
Seconds send_time(const machine::Machine& machine, const machine::Digits& digits,
                  machine::DigitMask group, machine::DigitMask copies, Bytes bytes);

// Returns the time of a halo exchange. `bytes` and `messages` are the most that one device
// receives. All of them count as if they crossed the group's outermost level.
Seconds halo_time(const machine::Machine& machine, const machine::Digits& digits,
                  machine::DigitMask group, Bytes bytes, std::int64_t messages);

// Returns the outermost level that `group` spans. The collective runs on this level's stream.
std::size_t find_outermost_level(const machine::Digits& digits, machine::DigitMask group);

}  // namespace tandem::predict
