// Includes all of ATen. Its logging header defines a CHECK macro; this header keeps ours
// (base/check.h). Including it costs 5 s of compile time, so only source files do; headers get
// <ATen/core/Tensor.h> through runtime/tensor.h.
#pragma once

#pragma push_macro("CHECK")
#undef CHECK
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#undef CHECK
#pragma pop_macro("CHECK")

#include "runtime/tensor.h"
