// Where a target asks a size that a tensor need not have: dim(?x, 1), and ?x may be a vector.
#pragma once

#include <vector>

#include "verify/instances.h"

namespace tandem::verify {

// A few occurrences of the source for each such tensor and each rank that is too low, as far as
// they are found soon. Patterns begin with equal ranks and may never come to these.
std::vector<Instance> occurrences_of_lower_ranks(const Rule& rule);

}  // namespace tandem::verify
