// Rules that differ in how many operands there are, as one text:
//
//   linear-of-concat-{n}: (linear (concat {i<n: ?x{i}} axis=1) ?w) =>
//       {add i<n: (linear ?x{i} (slice ?w axis=1 begin={+ j<i: dim(?x{j}, 1)} size=dim(?x{i}, 1)))}
//       if {and i<n: rank(?x{i}) == 2} for n in 2..8
//
// `{i<n: T}` is T once for every i from 0 to n - 1, one after the other; with an operator's name
// before it, that operator of the first two, then of that and the next; with `+`, the sum, 0
// where there is none; with `and`, all of the conditions. `{n/2<=i<n: T}` begins elsewhere; a bound
// is made of numbers by + * / and parentheses, a quotient rounded down. `{n}` and `{i}` are the
// numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::rewrite {

// The rules that a text stands for; itself where it is no family. Throws UserError.
std::vector<std::string> family_of(std::string_view text);

}  // namespace tandem::rewrite
