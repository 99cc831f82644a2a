// The optimizers. Each updates one device's shard of a weight in place. The gradients of fp32
// weights may be bf16.
#pragma once

#include "runtime/tensor.h"

namespace tandem::runtime {

// Computes weight -= rate * gradient. The gradient may be an uncoalesced sparse tensor of rows.
void apply_sgd(at::Tensor& weight, const at::Tensor& gradient, double rate);

// Computes velocity = plan::kVelocityDecay * velocity + gradient; weight -= rate * velocity.
void apply_momentum(at::Tensor& weight, const at::Tensor& gradient, at::Tensor& velocity,
                    double rate);

// Updates by Adam with betas 0.9 and 0.999, epsilon 1e-8 and bias correction, on CPUs in one pass
// over memory. `step` counts from 1.
void apply_adam(at::Tensor& weight, const at::Tensor& gradient, at::Tensor& mean,
                at::Tensor& square, double rate, std::int64_t step);

}  // namespace tandem::runtime
