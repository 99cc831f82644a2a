// Selection of a device's peak rate for an element type.
#pragma once

#include "machine/machine.h"

namespace tandem::machine {

// Returns the type whose peak `dtype` computes at. It is `dtype` itself if the device lists it,
// otherwise the nearest wider type (bf16 on a V100: fp32), otherwise a narrower one.
DType find_peak_type(const Device& device, DType dtype);

}  // namespace tandem::machine
