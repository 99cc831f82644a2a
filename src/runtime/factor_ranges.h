// Which part of every factor of an operator one device works on, read from where its operands'
// shards lie.
#pragma once

#include <vector>

#include "ops/signature.h"
#include "runtime/kernels.h"

namespace tandem::runtime {

// For whole operands of these sizes: the call's.
const ops::Signature& signature_of(const Call& call);

// By factor. One that no operand has is whole.
std::vector<term::FactorRange> factor_ranges(const Call& call, const ops::Signature& signature);

// What the call makes on this device.
Shape result_shape(const Call& call);

}  // namespace tandem::runtime
