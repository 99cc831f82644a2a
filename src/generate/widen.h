// A rule that was found for some sizes and attributes, made to say all that is true of it:
// attributes become symbols where any value will do, and conditions say what its truth needs. Both
// are tried at other sizes, ranks and values; that they are right everywhere is for a proof to say.
#pragma once

#include "generate/made_rule.h"

namespace tandem::generate {

// `axis=0` on both sides becomes `axis=?axis`, where the rule holds for other axes, too.
void free_attributes(MadeRule& made, KernelCache& kernels);

// Adds conditions such as dim(?x, 0) == dim(?y, 0) until the rule fails nowhere. False where none
// of those that are known helps.
bool add_conditions(MadeRule& made, KernelCache& kernels);

}  // namespace tandem::generate
