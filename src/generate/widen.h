// Generalises a rule that was found for some sizes and attributes. Attributes become symbols if any
// value works, and conditions state what the rule needs. Both are tested at other sizes, ranks and
// values. Only a proof shows that they hold everywhere.
#pragma once

#include "generate/generated_rule.h"

namespace tandem::generate {

// Replaces attributes by symbols: `axis=0` on both sides becomes `axis=?axis` if the rule also
// holds for other axes.
void free_attributes(GeneratedRule& made, KernelCache& kernels);

// Adds conditions such as dim(?x, 0) == dim(?y, 0) until the rule fails in no trial. Returns false
// if none of the known conditions helps.
bool add_conditions(GeneratedRule& made, KernelCache& kernels);

}  // namespace tandem::generate
