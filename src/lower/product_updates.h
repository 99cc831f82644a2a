// A pass: where plain SGD would subtract a weight's gradient after the backward pass, and the
// gradient is one product, the product is subtracted while it is multiplied. The gradient is never
// in memory, and neither written nor read.
//
// So nothing else may read the gradient, and nothing the weight after that product.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Returns whether `optimizer` may subtract a gradient of a weight of this type at once. Gradients
// of 16-bit weights may be summed in fp32, and their masters are updated.
bool may_subtract(plan::Optimizer optimizer, DType weight);

// Where the machine's software does so.
void update_in_products(Program& program);

}  // namespace tandem::lower
