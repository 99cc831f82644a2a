// Lowering converts a mapped parallel computation graph to a program of forward, backward and
// optimizer tasks. A chain of parallelization operators is fused into the steps of
// machine/reshard.h. Its backward is the resharding between the dual layouts; this includes the
// gradients of weights.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Returns the program of `mapped` on the devices `digits`, which run `software`. In training, the
// graph's first output must be a scalar loss. Throws UserError if the plan is not legal.
Program lower(const plan::MappedGraph& mapped, const machine::Digits& digits,
              const machine::Software& software, plan::Optimizer optimizer,
              Mode mode = Mode::kTraining);

// Does the same as lower(), but does not check that the plan is legal. plan::parallelize returns
// only legal ones.
Program lower_unchecked(const plan::MappedGraph& mapped, const machine::Digits& digits,
                        const machine::Software& software, plan::Optimizer optimizer,
                        Mode mode = Mode::kTraining);

}  // namespace tandem::lower
