// A pass: gradients of tables are kept as the rows that were looked up, where that is the same.
//
// Under plain SGD a row without a gradient does not change, so nothing else needs the zeros; any
// other optimizer moves every row. A gradient that is sent or summed is dense; but where the
// machine's software sums rows, devices send each other theirs in place of an all-reduce, if
// those of all of them are less than half of the table.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// The elements of a table's gradient that these indices can touch.
std::int64_t row_sparse_elements(const Shape& indices, const Shape& table);

void keep_row_sparse_gradients(Program& program);

// Is this all-reduce such an exchange of rows?
bool sums_rows(const Program& program, const Task& task);

}  // namespace tandem::lower
