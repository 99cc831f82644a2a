// Computes which range of each factor of an operator one device works on, from the shards of its
// operands and of its result.
#pragma once

#include <vector>

#include "ops/signature.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

// Returns the call's signature for the sizes of the whole operands.
const ops::Signature& get_signature(const Call& call);

// Returns the range of each factor. A factor is whole unless a sharded dimension of an operand or
// of the result narrows it.
std::vector<term::FactorRange> compute_factor_ranges(const Call& call,
                                                     const ops::Signature& signature);

// Returns the box of the result that the call computes on this device.
term::Box compute_result_box(const Call& call);

}  // namespace tandem::runtime
