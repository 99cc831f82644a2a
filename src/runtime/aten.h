// All of ATen, whose logging header defines a CHECK of its own: ours (base/check.h) is kept.
// Costs 5 s to compile, so only sources include it; headers take <ATen/core/Tensor.h> through
// runtime/tensor.h.
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
