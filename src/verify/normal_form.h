// Decides whether tensor expressions are equal. Both sides of a rule become sums of products over
// bound indices (scalar.h, algebra.h), made of the operators' meanings at given sizes. Elements are
// not enumerated, so sizes may be large.
//
//   (scale (add ?x ?y) factor=2)   and   (add (scale ?x factor=2) (scale ?y factor=2))
//   both become 2 x[i, j] + 2 y[i, j]
//
// Equal forms prove the sides equal at these sizes, in exact algebra. Coefficients are in the prime
// field of 2^61 - 1 elements. The identities used are those of a field, of sums, of index ranges
// and, if these are not enough, of ordered numbers. Large random sizes represent all sizes. A
// comparison of sizes, or of a coefficient computed from them, agrees by chance with probability
// below 2^-9, and independently so for every further draw. verdict.h draws several and also
// exhausts small sizes.
#pragma once

#include <optional>
#include <string>

#include "verify/typed_side.h"

namespace tandem::verify {

struct FormComparison {
  bool equal = false;
  std::string reason;  // if not equal: why nothing is known, never that the sides differ
};

// Compares the normal forms of all outputs of both sides.
FormComparison compare_forms(const TypedSide& source, const TypedSide& target);

}  // namespace tandem::verify
