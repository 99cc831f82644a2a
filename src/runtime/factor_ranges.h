// Which part of every factor of an operator one device works on, read from where its operands'
// shards lie, and the result's.
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
term::Box result_box(const Call& call);

}  // namespace tandem::runtime
