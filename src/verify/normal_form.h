// The decision procedure for tensor expressions: both sides of a rule as sums of products over
// bound indices (scalar.h, algebra.h), made of the operators' meanings at given sizes. Nothing is
// enumerated element by element, so sizes may be large.
//
// Equal forms prove the sides equal at these sizes, in exact algebra: coefficients are in the prime
// field of 2^61 - 1 elements, other identities than those of a field, of sums and of index ranges
// are not used. Large random sizes stand for all sizes: a comparison of sizes, or a coefficient
// made of them, that comes out the same by chance does so with probability below 2^-9 for each of
// the comparisons made, and again independently for every further draw; verdict.h draws several and
// exhausts small sizes beside.
#pragma once

#include <optional>
#include <string>

#include "verify/typed_side.h"

namespace tandem::verify {

struct FormComparison {
  bool equal = false;
  std::string reason;  // where not: why nothing is known. Never that the sides differ.
};

FormComparison compare_forms(const TypedSide& source, const TypedSide& target);

}  // namespace tandem::verify
