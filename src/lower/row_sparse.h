// A pass: gradients of tables are kept as the rows that were looked up, where that is the same.
//
// Under plain SGD a row without a gradient does not change, so nothing else needs the zeros; any
// other optimizer moves every row. A gradient that is sent or summed is dense.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

void keep_row_sparse_gradients(Program& program);

}  // namespace tandem::lower
