// The terms of the activations that linear and conv2d apply to their results. The elementwise
// operators of the same names use the same terms.
#pragma once

#include "ops/attributes.h"
#include "term/term.h"

namespace tandem::ops {

// Returns x * 0.5 * (1 + erf(x / sqrt(2))).
term::Term gelu(const term::Term& x);
// Returns x * sigmoid(x).
term::Term silu(const term::Term& x);
// Returns `act` applied to x; kNone returns x itself.
term::Term activate(Activation act, const term::Term& x);

}  // namespace tandem::ops
