// The time of a collective over a group of devices, given by the machine digits it spans.
//
// Hierarchical: inner levels first, each level moving what is left after the ones inside it
// (ring formulas on every level), with a level's bandwidth shared as the machine says.
#pragma once

#include "machine/digits.h"
#include "machine/reshard.h"

namespace tandem::cost {

// `bytes` is the largest buffer one device has in it: what all-reduce reduces, what reduce-scatter
// takes in, what all-gather gives out, what all-to-all holds, what a broadcast carries.
// Local steps cost nothing here.
Seconds collective_time(const machine::Machine& machine, const machine::Digits& digits,
                        machine::Step kind, machine::DigitMask group, Bytes bytes);

// The outermost level that the group spans: whose stream the collective runs on.
std::size_t outermost_level(const machine::Digits& digits, machine::DigitMask group);

// What every device of the group sends, by the ring algorithms: all-reduce 2 (n-1)/n of its bytes.
Bytes bytes_sent(const machine::Digits& digits, machine::Step kind, machine::DigitMask group,
                 Bytes bytes);

}  // namespace tandem::cost
