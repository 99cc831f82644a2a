// A rule drawn as text: both sides as trees, the source on the left. A node that stands in several
// places is drawn once, with a number, and is that number elsewhere.
//
//   matmul    =>  add
//   ├─ ?x         ├─ matmul
//   └─ add        │  ├─ ?x
//      ├─ ?y      │  └─ ?y
//      └─ ?z      └─ matmul
//                    ├─ ?x
//                    └─ ?z
#pragma once

#include <string>

#include "rewrite/rule.h"

namespace tandem::report {

// Beside each other where that fits into `width` columns, else below each other. Ends with a line
// end.
std::string rule_picture(const rewrite::Rule& rule, std::size_t width = 100);

}  // namespace tandem::report
