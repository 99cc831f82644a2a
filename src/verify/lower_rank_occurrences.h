// Finds occurrences where a target asks for a size that a tensor lacks: dim(?x, 1) of a vector ?x.
#pragma once

#include <vector>

#include "verify/instances.h"

namespace tandem::verify {

// Returns a few occurrences of the source for each such tensor and each rank that is too low, if
// they are found soon. Patterns begin with equal ranks and may never reach them.
std::vector<Instance> find_lower_rank_occurrences(const Rule& rule);

}  // namespace tandem::verify
