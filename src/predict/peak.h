// Which of the peaks that a device lists an element type computes at.
#pragma once

#include "machine/machine.h"

namespace tandem::predict {

// The type itself where it is listed, else the nearest wider one (bf16 on a V100: fp32), else a
// narrower one.
DType type_of_peak(const machine::Device& device, DType dtype);

}  // namespace tandem::predict
