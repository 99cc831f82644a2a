// The optimizers, on one device's shard of a weight, in place: one pass over memory. Of weights in
// fp32 gradients may be in bf16.
#pragma once

#include "runtime/tensor.h"

namespace tandem::runtime {

// weight -= rate * gradient. The gradient may be sparse, of rows, and not coalesced.
void sgd(at::Tensor& weight, const at::Tensor& gradient, double rate);

// velocity = plan::kVelocityKept * velocity + gradient; weight -= rate * velocity.
void momentum(at::Tensor& weight, const at::Tensor& gradient, at::Tensor& velocity, double rate);

// Adam with betas 0.9 and 0.999, epsilon 1e-8 and bias correction; `step` counts from 1.
void adam(at::Tensor& weight, const at::Tensor& gradient, at::Tensor& mean, at::Tensor& square,
          double rate, std::int64_t step);

}  // namespace tandem::runtime
