// The error for operands whose ranks do not fit an operator, whatever their sizes. A caller that
// tries many sizes need not ask again.
#pragma once

#include "base/error.h"

namespace tandem::ops {

struct RankError : UserError {
  using UserError::UserError;
};

}  // namespace tandem::ops
