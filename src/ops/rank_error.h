// An operator that operands of these ranks fit at no size. Who tries many sizes need not ask again.
#pragma once

#include "base/error.h"

namespace tandem::ops {

struct RankError : UserError {
  using UserError::UserError;
};

}  // namespace tandem::ops
