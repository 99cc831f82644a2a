// The activations that linear and conv2d apply to their result, as terms; the elementwise operators
// of the same names are these.
#pragma once

#include "ops/attributes.h"
#include "term/term.h"

namespace tandem::ops {

// x * 0.5 * (1 + erf(x / sqrt(2)))
term::Term gelu(const term::Term& x);
// x * sigmoid(x)
term::Term silu(const term::Term& x);
term::Term activate(Activation act, const term::Term& x);

}  // namespace tandem::ops
