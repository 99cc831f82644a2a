// Draws a rewrite rule as text: both sides as trees, with the source on the left. A node with
// several readers is drawn once, with a number. Its other uses show only the number.
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

// Returns the drawing with a final line end. The sides are next to each other if they fit into
// `width` columns, else below each other.
std::string draw_rule(const rewrite::Rule& rule, std::size_t width = 100);

}  // namespace tandem::report
