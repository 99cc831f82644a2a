// The time of a collective over a group of devices, given by the machine digits it spans.
//
// Hierarchical: inner levels first, each level moving what is left after the ones inside it
// (ring formulas on every level), with a level's bandwidth shared as the machine says, utilized as
// far as messages of that size do, and divided by how full its fullest link gets
// (machine/topology.h). Where a level has trees, an all-reduce goes along them when that is faster:
// when it is small and the units are many. Before all that, a fixed time to start.
#pragma once

#include "machine/digits.h"
#include "machine/reshard.h"

namespace tandem::predict {

// `bytes` is the largest buffer one device has in it: what all-reduce reduces, what reduce-scatter
// takes in, what all-gather gives out, what all-to-all holds, what a broadcast carries.
// Local steps and groups of one device cost nothing. The time assumes that the devices outside the
// group do the same in groups of their own. Where every device sends to every other, each byte
// crosses one level, the outermost at which the two differ.
Seconds collective_time(const machine::Machine& machine, const machine::Digits& digits,
                        machine::Step kind, machine::DigitMask group, Bytes bytes);

// What of that time the bytes take: the rest is shared by all that one such collective carries.
Seconds carrying_time(const machine::Machine& machine, const machine::Digits& digits,
                      machine::Step kind, machine::DigitMask group, Bytes bytes);

// Is that time latency + bytes x a constant? Not where a level's utilization is a curve, or where
// an all-reduce may go along rings or trees.
bool is_affine(const machine::Machine& machine, const machine::Digits& digits, machine::Step kind,
               machine::DigitMask group);

// The time of sending what the devices that differ in `copies` all have. Where the machine's
// software sends parts, each of those inside a unit sends a part of it, and they gather it there.
Seconds send_time(const machine::Machine& machine, const machine::Digits& digits,
                  machine::DigitMask group, machine::DigitMask copies, Bytes bytes);

// The time of exchanging halos: `bytes` and `messages` are what one device gets at the most. All of
// it as if it crossed the group's outermost level.
Seconds halo_time(const machine::Machine& machine, const machine::Digits& digits,
                  machine::DigitMask group, Bytes bytes, std::int64_t messages);

// The outermost level that the group spans: whose stream the collective runs on.
std::size_t outermost_level(const machine::Digits& digits, machine::DigitMask group);

// What a device of the group sends on average, by the ring algorithms: all-reduce 2 (n-1)/n of its
// bytes, a broadcast or reduce (a chain, whose end sends nothing) (n-1)/n, a scatter or gather
// (only the root sends or receives) (n-1)/n^2.
Bytes bytes_sent(const machine::Digits& digits, machine::Step kind, machine::DigitMask group,
                 Bytes bytes);

}  // namespace tandem::predict
