// A pass that stores gradients of tables as the looked-up rows only, if that is equivalent.
//
// Under plain SGD a row without a gradient does not change, so nothing needs the zeros; other
// optimizers move every row. A gradient that is sent or summed is dense. There is one exception,
// for machines whose software sums rows: devices exchange their rows instead of an all-reduce, if
// the rows of all devices are less than half of the table.
#pragma once

#include "lower/program.h"

namespace tandem::lower {

// Returns the largest number of elements of a table's gradient that these indices can touch.
//   indices [4, 3], table [100, 16] -> 12 rows of 16 = 192 elements
std::int64_t count_row_sparse_elements(const Shape& indices, const Shape& table);

// Sets Buffer::sparse_elements of the gradients that are stored as rows.
void mark_row_sparse_gradients(Program& program);

// Returns whether this all-reduce is an exchange of rows.
bool sums_rows(const Program& program, const Task& task);

}  // namespace tandem::lower
