// Rule families: one text for rules that differ in their number of operands.
//
//   linear-of-concat-{n}: (linear (concat {i<n: ?x{i}} axis=1) ?w) =>
//       {add i<n: (linear ?x{i} (slice ?w axis=1 begin={+ j<i: dim(?x{j}, 1)} size=dim(?x{i}, 1)))}
//       if {and i<n: rank(?x{i}) == 2} for n in 2..8
//
// `{i<n: T}` repeats T for every i from 0 to n - 1. With an operator's name before the range, the
// copies are combined from the left: {add i<3: ?x{i}} -> (add (add ?x0 ?x1) ?x2). `+` gives the
// sum, 0 if there are no copies. `and` gives the conjunction. `{n/2<=i<n: T}` begins at another
// number. A bound consists of numbers, + * / and parentheses; a quotient is rounded down. `{n}` and
// `{i}` are the numbers themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::rewrite {

// Returns the texts of the rules of a family, or `text` itself if it is no family. Throws
// UserError.
std::vector<std::string> expand_family(std::string_view text);

}  // namespace tandem::rewrite
