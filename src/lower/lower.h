// Lowering: a mapped parallel computation graph becomes a program of forward, backward and
// optimizer tasks. A chain of parallelization operators is fused into the steps of
// machine/reshard.h; its backward is the resharding between the dual layouts, gradients of weights
// included.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// The graph's first output must be a scalar loss. Throws UserError when the plan is not legal.
Program lower(const plan::MappedGraph& mapped, const machine::Digits& digits,
              plan::Optimizer optimizer, Phase phase = Phase::kTraining);

// The same of what is known to be legal, as plan::parallelize makes it.
Program lower_legal(const plan::MappedGraph& mapped, const machine::Digits& digits,
                    plan::Optimizer optimizer, Phase phase = Phase::kTraining);

}  // namespace tandem::lower
